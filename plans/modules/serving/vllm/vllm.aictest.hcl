# Tests of the static steps: aicplan test plans/modules/serving/vllm

variables { model = "Qwen/Qwen3-8B" }

run "without workloads there are no steps" {
  expect "grid.steps[\"all\"]" { exists = false }
  assert {
    condition     = plan.cases == 0
    error_message = "the server alone measures nothing"
  }
}

run "a step takes one prefill and decodes" {
  variables {
    prefill_tokens = 8192
    step_workloads = [
      { isl = 1024, osl = 32, concurrency = 8, tensor_parallel_size = 1 },
      { isl = 1024, osl = 32, concurrency = 16, tensor_parallel_size = 2 },
      { isl = 128, osl = 1, concurrency = 1, tensor_parallel_size = 1 },
    ]
  }

  expect "grid.steps[\"all\"]" {
    declared = 3
    cases    = 1
    drops = {
      "its prefill is more than one step (prefill_tokens)" = 1
      "a decode step is what tokens after the first take"  = 1
    }
  }
  expect "collect.steps[\"all\"]" { cases = 1 }
  assert {
    condition     = alltrue([for c in cases("grid.steps[\"all\"]") : c.seq_len == 1056 && c.max_num_seqs == 16])
    error_message = "one engine has room for the largest workload"
  }
}

run "prefills are repeated in the engine of the steps" {
  variables {
    prefill_tokens = 8192
    step_workloads = [{ isl = 1024, osl = 32, concurrency = 8, tensor_parallel_size = 1 }]
    prefill_workloads = [
      { isl = 1024, osl = 32, concurrency = 8, tensor_parallel_size = 1 },
      { isl = 1024, osl = 64, concurrency = 8, tensor_parallel_size = 1 },
      { isl = 1024, osl = 32, concurrency = 16, tensor_parallel_size = 1 },
      { isl = 1056, osl = 32, concurrency = 1, tensor_parallel_size = 1 },
    ]
  }

  expect "grid.prefills[\"all\"]" {
    declared = 4
    cases    = 1
    drops = {
      "its prefill is more than one step (prefill_tokens)" = 1
      "it does not fit into the engine of step_workloads"  = 1
    }
  }
  expect "collect.prefills[\"all\"]" { cases = 1 }
  assert {
    condition     = alltrue([for c in cases("grid.prefills[\"all\"]") : c.seq_len == 1056 && c.max_num_seqs == 8])
    error_message = "the engine is that of the steps"
  }
}

run "prefills need steps" {
  variables { prefill_workloads = [{ isl = 1024, osl = 32, concurrency = 8, tensor_parallel_size = 1 }] }
  expect_error { text = "prefills are repeated in the engine of step_workloads, and there are none" }
}

run "traces need steps" {
  variables { trace_workloads = [{ isl = 1024, osl = 32, concurrency = 8, tensor_parallel_size = 1 }] }
  expect_error { text = "traces are taken in the engine of step_workloads, and there are none" }
}

run "a step that is never timed is none" {
  variables {
    step_iterations = 0
    step_workloads  = [{ isl = 1024, osl = 32, concurrency = 8, tensor_parallel_size = 1 }]
  }

  expect_error { text = "step_iterations is a whole number from 1" }
}
