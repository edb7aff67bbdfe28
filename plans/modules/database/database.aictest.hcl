# Tests of the included files: aicplan test plans/modules/database

run "a plan names its backend, runtimes and grids" {
  variables {
    ops    = ["gemm", "moe"]
    models = ["Qwen/Qwen3-32B"]
  }
  plan {
    include = ["database.hcl"]

    locals {
      backend     = "vllm"
      runtimes    = { base = runtime.vllm }
      grids       = module.vllm.grids
      unsupported = module.vllm.unsupported
    }
    runtime "vllm" {
      kind           = "python"
      framework      = "VLLM"
      package        = "vllm"
      collector_root = var.collector_root
    }
    module "vllm" {
      source    = "../vllm"
      selection = module.selection
    }
  }

  expect "module.pipeline[\"base\"].collect.op[\"gemm\"]" { exists = true }
  expect "module.pipeline[\"base\"].export.table[\"gemm_perf\"]" { exists = true }
  expect "module.pipeline[\"base\"].collect.op[\"moe\"]" { exists = false }
}
