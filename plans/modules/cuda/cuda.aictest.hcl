# Tests of this module: aicplan test plans/modules/cuda

run "defaults" {
  expect "grid.memory" {
    declared = 51
    cases    = 51
  }
  expect "grid.elementwise" { cases = 480 }
}

run "arrays of at most a MiB" {
  variables { largest_mb = 1 }

  assert {
    condition     = max([for c in cases("grid.memory") : c.size_bytes]...) == 1048576
    error_message = "largest_mb bounds the arrays"
  }
}

run "a size that is no number" {
  variables { largest_mb = "large" }
  expect_error {
    text = "var.largest_mb is number"
    at   = "cuda.aictest.hcl"
  }
}
