# Tests of the modules of all frameworks: aicplan test plans/modules/frameworks

run "gemm on an H200" {
  plan {
    system "h200_sxm" {}
    module "selection" {
      source   = "../selection"
      for_each = toset(["trtllm", "vllm", "sglang"])
      backend  = each.key
      system   = system.h200_sxm
      ops      = ["gemm"]
    }
    module "trtllm" {
      source    = "../trtllm"
      selection = module.selection["trtllm"]
    }
    module "vllm" {
      source    = "../vllm"
      selection = module.selection["vllm"]
    }
    module "sglang" {
      source    = "../sglang"
      selection = module.selection["sglang"]
    }
  }

  expect "module.trtllm.module.common.grid.gemm" {
    declared = 155104
    cases    = 103776
    drops    = { sm_gate = 38702 }
  }
  expect "module.vllm.module.common.grid.gemm" {
    declared = 155104
    cases    = 111888
    drops    = { sm_gate = 38702 }
  }
  expect "module.sglang.module.common.grid.gemm" {
    declared = 155104
    cases    = 104118
    drops    = { sm_gate = 38702 }
  }
  assert {
    condition     = keys(plan.stages) == ["module.sglang.module.common.grid.gemm", "module.trtllm.module.common.grid.gemm", "module.vllm.module.common.grid.gemm"]
    error_message = "one op of each framework was selected"
  }
}

run "one model, two ranks, a GPU with FP4" {
  plan {
    system "b200_sxm" {}
    module "selection" {
      source   = "../selection"
      for_each = toset(["trtllm", "vllm", "sglang"])
      backend  = each.key
      system   = system.b200_sxm
      models   = ["Qwen/Qwen3-32B"]
      tp       = [2]
      ops      = ["gemm", "attention_generation"]
    }
    module "trtllm" {
      source    = "../trtllm"
      selection = module.selection["trtllm"]
    }
    module "vllm" {
      source    = "../vllm"
      selection = module.selection["vllm"]
    }
    module "sglang" {
      source    = "../sglang"
      selection = module.selection["sglang"]
    }
  }

  expect "module.trtllm.module.common.grid.attention_generation" { cases = 304 }
  expect "module.vllm.module.common.grid.attention_generation" { cases = 304 }
  expect "module.sglang.module.common.grid.attention_generation" { cases = 304 }
  assert {
    condition     = alltrue([for m in ["trtllm", "vllm", "sglang"] : contains([for c in cases("module.${m}.module.common.grid.gemm") : c.gemm_dtype], "nvfp4")])
    error_message = "FP4 starts at SM 100"
  }
  assert {
    condition     = alltrue(flatten([for m in ["trtllm", "vllm", "sglang"] : [for c in cases("module.${m}.module.common.grid.attention_generation") : c.num_heads == 32 && c.head_dim == 128]]))
    error_message = "Qwen3-32B has 64 query heads of 128: 32 on each of two ranks"
  }
}

run "an op that the framework does not have" {
  plan {
    system "h200_sxm" {}
    module "selection" {
      source  = "../selection"
      system  = system.h200_sxm
      backend = "sglang"
      ops     = ["gem"]
    }
  }

  exit_code = 1
  expect_error {
    text = "This backend has no op gem. Did you mean gemm?"
    at   = "frameworks.aictest.hcl"
  }
}

run "one format" {
  plan {
    system "h200_sxm" {}
    module "selection" {
      source  = "../selection"
      system  = system.h200_sxm
      backend = "vllm"
      models  = ["meta-llama/Meta-Llama-3.1-8B"]
      tp      = [1]
      ops     = ["gemm", "attention_context"]
    }
    module "vllm" {
      source    = "../vllm"
      selection = module.selection
      formats   = ["bfloat16"]
    }
  }

  expect "grid.gemm" { cases = 369 }
  assert {
    condition     = alltrue([for c in cases("grid.gemm") : c.gemm_dtype == "bfloat16"])
    error_message = "only weights in bfloat16 were selected"
  }
  assert {
    condition     = alltrue([for c in cases("grid.attention_context") : c.kv_cache_dtype == "bfloat16"])
    error_message = "only caches in bfloat16 were selected"
  }
}
