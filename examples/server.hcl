# A model server that the plan starts, with every setting of its start, its profiler and its end, and a traced pass.

runtime "vllm" {
  kind            = "server"
  framework       = "VLLM"
  command         = ["vllm", "serve", "{model}", "--host", "{host}", "--port", "{port}", "-tp", "{tensor_parallel_size}"]
  model           = "Qwen/Qwen3-0.6B"
  dir             = "server"
  host            = "127.0.0.1"
  port            = 8000
  starts_by       = ["experiment_id"] # a server for each experiment
  gpus_by         = ["tensor_parallel_size"]
  gpus_within     = "120s"
  answers_within  = "5m"
  endpoint_type   = "completions"
  endpoint        = "/v1/completions"
  streaming       = true
  require_done    = true
  request_timeout = 600
  headers         = { "X-Tenant" = "bench" }
  api_key_file    = "key"
  ca_file         = "ca.pem"
  labels          = ["experiment_id"]

  ready {
    path       = "/health"
    completion = true
    within     = "20m"
  }
  stop {
    signal = "SIGINT"
    within = "30s"
  }
  profiler {
    start = "/start_profile"
    stop  = "/stop_profile"
    nsys  = ["nsys", "profile", "-o", "{trace_dir}/nsys", "--trace=cuda,nvtx"]
  }
}

runtime "remote" {
  kind           = "endpoint"
  framework      = "VLLM"
  url            = "https://models.example.com/openai/deployments/qwen/completions?api-version=2024-10-21"
  model          = "Qwen/Qwen3-0.6B"
  api_key_env    = "MODEL_KEY"
  api_key_header = "api-key"
  labels         = ["experiment_id"]
}

grid "load" {
  op = "completions"
  axis "experiment_id" { values = ["E1", "E2"] }
  axis "tensor_parallel_size" { values = [1] }
  axis "concurrency" { values = [1, 8] }
}

collect "load" {
  grid    = grid.load
  runtime = runtime.vllm
  load {
    requests = 32
    isl      = 512
    osl      = 64
  }
  trace {
    torch    = false
    nsys     = true
    requests = 4
    osl      = 16
    within   = "5m"
    required = true
  }
}
