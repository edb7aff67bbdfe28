# Tests of this module: aicplan test plans/modules/wideep

run "two nodes of eight" {
  plan {
    module "wideep" {
      source        = "./"
      nodes         = 2
      gpus_per_node = 8
    }
  }

  expect "grid.moe[\"generation\"]" {
    cases = 3
  }
  expect "grid.deepep_ll[\"all\"]" {
    cases = 2
  }
}

run "one GPU has no DeepEP" {
  plan {
    module "wideep" {
      source        = "./"
      nodes         = 1
      gpus_per_node = 1
    }
  }

  expect "grid.deepep_normal[\"all\"]" {
    cases = 0
    drops = { "DeepEP needs two ranks or more, with the same number of experts on each" = 6 }
  }
  expect "grid.mlp[\"context\"]" {
    cases = 1
  }
}
