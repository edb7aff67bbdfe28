# Tests of this module: aicplan test plans/modules/pipeline

run "ops of one table are exported together" {
  plan {
    system "h200_sxm" {}
    runtime "torch" {
      kind      = "python"
      framework = "torch"
      path      = ["../torch"]
    }
    module "torch" {
      source = "../torch"
      system = system.h200_sxm
      ops    = ["gemm", "mla_bmm_gen_pre", "mla_bmm_gen_post"]
    }
    module "pipeline" {
      source   = "./"
      runtime  = runtime.torch
      system   = system.h200_sxm
      grids    = module.torch.grids
      backend  = "torch"
      bindings = { for op, g in module.torch.grids : op => null }
    }
  }

  expect "collect.op[\"gemm\"]" { collect = 1440 }
  expect "collect.op[\"moe\"]" { exists = false }
  assert {
    condition     = length([for a, s in plan.stages : a if s.kind == "export"]) == 2
    error_message = "gemm has a table, and both batched products share one"
  }
}
