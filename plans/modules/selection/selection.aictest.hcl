# Tests of this module: aicplan test plans/modules/selection

variables {
  system  = { sm_version = 90, usable_memory = 1e11 }
  backend = "vllm"
}

run "everything" {
  assert {
    condition     = output.everything && output.pin == null && output.sm == 90 && length(output.tp_sizes) == 8
    error_message = "without a choice all is planned"
  }
  assert {
    condition     = output.memory == 1e11
    error_message = "the system's memory counts where none is given"
  }
}

run "one model" {
  variables {
    models        = ["Qwen/Qwen3-32B"]
    device_memory = 5
  }

  assert {
    condition     = !output.everything && !output.plans.moe && output.plans.attention_context && output.memory == 5
    error_message = "a dense model wants attention and no experts"
  }
}

run "a model whose heads the base grid has" {
  variables { models = ["nvidia/Nemotron-H-56B-Base-8K", "mistralai/Mixtral-8x22B-v0.1"] }

  assert {
    condition     = output.plans.attention_context && [for r in output.models.attention : r.num_heads if r.selected] == [48, 64]
    error_message = "without the base grid, the model's own heads are planned"
  }

  assert {
    condition     = alltrue([for r in output.models.attention : contains(r.tp, 8) if r.selected])
    error_message = "each of them is served on eight GPUs"
  }
}

run "models with the experts of another" {
  variables { models = ["deepseek-ai/DeepSeek-V3.2", "Qwen/Qwen3-VL-235B-A22B-Instruct"] }

  assert {
    condition     = [for r in output.models.moe : r.model_name if r.selected] == ["deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-235B-A22B"]
    error_message = "experts of one shape are planned for all checkpoints that have it"
  }
}

run "a misspelt model" {
  variables { models = ["qwen3-32b"] }
  expect_error {
    text = "No shapes are on file of qwen3-32b. Did you mean Qwen/Qwen3-32B?"
    at   = "selection.aictest.hcl"
  }
}

run "a size that is no power of two" {
  variables { tp = [3] }
  expect_error { text = "Tensor-parallel sizes are powers of two from 1 to 128." }
}

run "a model with a version of its own" {
  variables {
    cases  = "aisimulate-0.13"
    models = ["zai-org/GLM-5.3-Flash"]
  }

  assert {
    condition     = output.pin == "==0.31.0"
    error_message = "case plans name vLLM 0.31.0 for GLM-5.3-Flash"
  }
}

run "models with different versions" {
  variables {
    cases  = "aisimulate-0.13"
    models = ["zai-org/GLM-5.3-Flash", "Qwen/Qwen3-32B"]
  }
  expect_error { text = "Choose them in runs of their own." }
}
