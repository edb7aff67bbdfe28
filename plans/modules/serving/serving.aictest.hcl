# Tests of the servers of all frameworks: aicplan test plans/modules/serving

run "servers for load" {
  plan {
    module "vllm" {
      source = "./vllm"
      model  = "/models/Qwen/Qwen3-8B"
      args   = ["--one-more"]
    }
    module "sglang" {
      source = "./sglang"
      model  = "/models/Qwen/Qwen3-8B"
      args   = ["--one-more"]
    }
    module "trtllm" {
      source = "./trtllm"
      model  = "/models/Qwen/Qwen3-8B"
      args   = ["--one-more"]
    }
    grid "load" {
      op = "completions"
      axis "tensor_parallel_size" { values = [1, 2] }
      axis "pipeline_parallel_size" { values = [1] }
      axis "batch_size" { values = [4] }
      axis "seq_len" { values = [512] }
      axis "max_tokens" { values = [16] }
    }
    collect "load" {
      for_each = { vllm = module.vllm.runtime, sglang = module.sglang.runtime, trtllm = module.trtllm.runtime }
      grid     = grid.load
      runtime  = each.value
    }
  }

  expect "collect.load[\"vllm\"]" { collect = 2 }
  expect "collect.load[\"sglang\"]" { collect = 2 }
  expect "collect.load[\"trtllm\"]" { collect = 2 }
  assert {
    condition     = [for m in [module.vllm, module.sglang, module.trtllm] : "${m.runtime.kind} ${m.runtime.framework}"] == ["server VLLM", "server SGLANG", "server TRTLLM"]
    error_message = "rows are kept by the framework that served"
  }
}

run "a server needs a model" {
  plan {
    module "server" { source = "./sglang" }
  }

  expect_error { text = "model" }
}

run "arguments are a list" {
  plan {
    module "server" {
      source = "./trtllm"
      model  = "m"
      args   = "--verbose"
    }
  }

  expect_error { text = "args" }
}
