# Tests of this module: aicplan test plans/modules/serving/trtllm

run "a server for load" {
  plan {
    module "server" {
      source = "./"
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
      grid    = grid.load
      runtime = module.server.runtime
    }
  }

  expect "collect.load" {
    cases   = 2
    collect = 2
  }
  assert {
    condition     = module.server.runtime.kind == "server" && module.server.runtime.framework == "TRTLLM"
    error_message = "rows are kept by the framework that served"
  }
}

run "a server needs a model" {
  expect_error { text = "var.model" }
}

run "arguments are a list" {
  plan {
    module "server" {
      source = "./"
      model  = "/models/Qwen/Qwen3-8B"
      args   = "--verbose"
    }
  }

  expect_error { text = "args" }
}
