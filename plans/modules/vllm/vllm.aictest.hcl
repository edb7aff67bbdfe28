# Tests of this module: aicplan test plans/modules/vllm

run "gemm on an H200" {
  plan {
    system "h200_sxm" {}
    module "vllm" {
      source = "./"
      system = system.h200_sxm
      ops    = ["gemm"]
    }
  }

  expect "grid.gemm" {
    declared = 155104
    cases    = 111888
    drops    = { sm_gate = 38702 }
  }
  assert {
    condition     = keys(plan.stages) == ["module.vllm.grid.gemm"]
    error_message = "one op was asked for"
  }
}

run "one model, two ranks, a GPU with FP4" {
  plan {
    system "b200_sxm" {}
    module "vllm" {
      source = "./"
      system = system.b200_sxm
      models = ["Qwen/Qwen3-32B"]
      tp     = [2]
      ops    = ["gemm", "attention_generation"]
    }
  }

  expect "grid.attention_generation" { cases = 304 }
  assert {
    condition     = contains([for c in cases("grid.gemm") : c.gemm_dtype], "nvfp4")
    error_message = "FP4 starts at SM 100"
  }
  assert {
    condition     = alltrue([for c in cases("grid.attention_generation") : c.num_heads == 32 && c.head_dim == 128])
    error_message = "Qwen3-32B has 64 query heads of 128: 32 on each of two ranks"
  }
}

run "an op that the backend does not have" {
  plan {
    system "h200_sxm" {}
    module "vllm" {
      source = "./"
      system = system.h200_sxm
      ops    = ["gem"]
    }
  }

  exit_code = 1
  expect_error {
    text = "This backend has no op gem;"
    at   = "vllm/inputs.hcl"
  }
}

run "one format" {
  plan {
    system "h200_sxm" {}
    module "vllm" {
      source  = "./"
      system  = system.h200_sxm
      models  = ["meta-llama/Meta-Llama-3.1-8B"]
      tp      = [1]
      ops     = ["gemm", "attention_context"]
      formats = ["bfloat16"]
    }
  }

  expect "grid.gemm" { cases = 296 }
  assert {
    condition     = alltrue([for c in cases("grid.gemm") : c.gemm_dtype == "bfloat16"])
    error_message = "other formats of weights were not asked for"
  }
  assert {
    condition     = alltrue([for c in cases("grid.attention_context") : c.kv_cache_dtype == "bfloat16"])
    error_message = "other formats of caches were not asked for"
  }
}
