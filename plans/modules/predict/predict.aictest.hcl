# Tests of this module: aicplan test plans/modules/predict

run "a case for each workload" {
  variables {
    model_path = "Qwen/Qwen3-8B"
    workloads = [
      { isl = 256, osl = 128, concurrency = 1, tensor_parallel_size = 1 },
      { isl = 8192, osl = 128, concurrency = 128, tensor_parallel_size = 2 },
    ]
  }

  expect "grid.workloads" { cases = 2 }
  assert {
    condition     = alltrue([for c in cases("grid.workloads") : c.system_name == "h200_sxm" && c.estimate_mode == "agg"])
    error_message = "workloads are predicted for an H200 under load"
  }
}
