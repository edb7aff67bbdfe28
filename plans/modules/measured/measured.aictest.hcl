# Tests of this module: aicplan test plans/modules/measured

run "from a grid to a perf file" {
  plan {
    runtime "cpu" {
      kind      = "cpu"
      framework = "CPU"
    }
    grid "gemm" {
      op = "gemm"
      axis "gemm_dtype" { values = ["float32"] }
      axis "m" { values = [1, 2] }
      axis "n" { values = [64] }
      axis "k" { values = [64] }
    }
    preflight "node" {
      check "writable" {}
    }
    module "measured" {
      source    = "./"
      grid      = grid.gemm
      runtime   = runtime.cpu
      preflight = preflight.node
      file      = "gemm_perf.txt"
    }
  }

  exit_code = 2
  expect "collect.op" {
    action  = "collect"
    collect = 2
  }
  expect "export.op" { action = "unknown" }
}

run "the file has a name" {
  expect_error { text = "The plan needs var.file (name of the perf file)." }
  expect_error { text = "The plan needs var.grid" }
  expect_error { text = "The plan needs var.runtime" }
  expect_error { text = "The plan needs var.preflight" }
}
