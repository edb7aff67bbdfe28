# Tests of this module: aicplan test plans/modules/wideep

run "two nodes of eight" {
  variables {
    nodes         = 2
    gpus_per_node = 8
  }

  expect "grid.moe[\"generation\"]" { cases = 3 }
  expect "grid.deepep_ll[\"all\"]" { cases = 2 }
}

run "one GPU has no DeepEP" {
  variables {
    nodes         = 1
    gpus_per_node = 1
  }

  expect "grid.deepep_normal[\"all\"]" {
    cases = 0
    drops = { "DeepEP needs two ranks or more, with the same number of experts on each" = 6 }
  }
  expect "grid.mlp[\"context\"]" { cases = 1 }
}

run "three nodes, with redundant experts" {
  variables {
    nodes         = 3
    gpus_per_node = 8
    models        = [{ hidden_size = 7168, num_topk = 8, num_experts = 288 }, { hidden_size = 7168, num_topk = 8, num_experts = 256 }]
  }

  expect "grid.moe[\"context\"]" {
    cases = 0
    drops = { "DeepEP needs two ranks or more, with the same number of experts on each" = 2 }
  }
  expect "grid.deepep_ll[\"all\"]" {
    cases = 1
    drops = { "DeepEP needs two ranks or more, with the same number of experts on each" = 1 }
  }
  expect "grid.deepep_normal[\"all\"]" { cases = 3 }
}

# The throughput kernels take 8 GPUs of each of some numbers of nodes; those for low latency take any.
run "five nodes of four GPUs" {
  variables {
    nodes         = 5
    gpus_per_node = 4
    models        = [{ hidden_size = 7168, num_topk = 8, num_experts = 320 }]
  }

  expect "grid.deepep_ll[\"all\"]" { cases = 1 }
  expect "grid.deepep_normal[\"all\"]" {
    cases = 0
    drops = { "the throughput kernels of DeepEP are not compiled for so many nodes, or GPUs of a node" = 3 }
  }
  expect "grid.moe_a2a[\"all\"]" {
    cases = 2
    drops = { "the throughput kernels of DeepEP are not compiled for so many nodes, or GPUs of a node" = 6 }
  }
}
