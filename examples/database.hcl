# From old files to a database: a strict check of the node, imports whose rows do not
# name their origin, a repeated measurement, and exports for readers.

system "h200" { name = "h200_sxm" }

runtime "native" {
  kind         = "cuda"
  framework    = "CUDA"
  image        = "nvcr.io/nvidia/cuda:13.0.1-devel-ubuntu24.04"
  image_digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
  launcher     = ["numactl", "--cpunodebind=0"]
  arena_gb     = 40
  verify       = true # compare results with a reference in higher precision
  window       = 64
}

preflight "node" {
  runtime = runtime.native
  system  = system.h200

  check "gpus" {
    count = 8
    name  = "H200"
  }
  check "temperature" { max_celsius = 60 }
  check "load" { max_per_core = 0.2 }
  check "ecc" {}
  check "persistence" { on_fail = "warn" }
  check "clocks" { on_fail = "warn" }
}

grid "gemm" {
  op = "matmul"
  case_set "decode" {
    loop_order = ["k", "m"] # m varies fastest
    axis "m" { values = [1, 2, 4] }
    axis "k" { values = [4096, 8192] }
    derive "n" { value = k }
    derive "gemm_dtype" { value = "bfloat16" }
  }
}

grid "layers" {
  op = "layers"
  rows "models" {
    description = "hidden sizes of two models"
    values      = [{ hidden = 4096 }, { hidden = 8192 }]
  }
  sweep "points" {
    description = "points that a worker walks inside one case"
    loop_order  = ["seq", "served"]
    axis "seq" { values = [128, 256] }
    rows "served" { values = [{ batch = 1 }, { batch = 8 }] }
  }
}

collect "gemm" {
  grid       = grid.gemm
  runtime    = runtime.native
  op         = "gemm" # the op's name in the runtime
  depends_on = [preflight.node]
  measure {
    idle_gap_seconds  = 0.01
    power_min_seconds = 0.5
    warmup_seconds    = 0.1
    seed              = 7
  }
}

verify "gemm" {
  collect  = collect.gemm
  sample   = 20
  by       = ["m"]
  seed     = 3
  median   = 0.01
  severity = "warn"
}

verify "deduped" {
  collect = collect.gemm
  input   = dedupe.gemm
}

dedupe "gemm" { input = collect.gemm }

import "old" {
  path              = "./old"
  table             = "gemm_perf"
  system            = "h200_sxm"
  backend           = "trtllm"
  version           = "1.2.0"
  framework         = "TRTLLM"
  framework_version = "1.2.0"
  device            = "NVIDIA H200"
}

export "csv" {
  input  = import.old
  format = "csv"
  reader = "0.4"
}

export "database" {
  input           = verify.gemm
  layout          = "families"
  table           = "gemm_perf"
  system          = "h200_sxm"
  backend         = "trtllm"
  version         = "1.3.0"
  merge           = false
  allow_partial   = true
  collector_ref   = "0123456789abcdef0123456789abcdef01234567"
  sidecar         = 2
  current         = true
  attention_lanes = { "90" = "fa3" }

  reuse "moe_perf" {
    from_version = "1.2.0"
    reason       = "the kernels did not change"
    approved_by  = "A. Engineer"
  }
}
