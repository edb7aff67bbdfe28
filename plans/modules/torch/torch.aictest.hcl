# Tests of this module: aicplan test plans/modules/torch

run "all ops on an H200" {
  plan {
    system "h200_sxm" {}
    module "torch" {
      source = "./"
      system = system.h200_sxm
    }
  }

  expect "grid.gemm" {
    cases = 1440
    drops = { sm_gate = 0, "torch's int8 product needs more than 16 rows" = 180 }
  }
  expect "grid.moe" {
    cases = 48
    rows  = 720
  }
  assert {
    condition     = length([for c in cases("grid.gemm") : c if c.gemm_dtype == "sq" && c.m <= 16]) == 0
    error_message = "torch's int8 product needs more than 16 rows"
  }
}

run "no FP8 on an A100" {
  plan {
    system "a100_sxm" {}
    module "torch" {
      source = "./"
      system = system.a100_sxm
      ops    = ["gemm", "compute_scale"]
    }
  }

  expect "grid.compute_scale" {
    cases = 0
    drops = { "FP8 starts at SM 89" = 90 }
  }
  assert {
    condition     = !contains([for c in cases("grid.gemm") : c.gemm_dtype], "fp8")
    error_message = "FP8 starts at SM 89"
  }
}
