# SGLang's server as a runtime: python -m sglang.launch_server.

include = ["../server.hcl"]

variable "served_name" { default = "model" } # the name that requests ask for
variable "requires" { default = "" }
variable "dtype" { default = "bfloat16" }
variable "dummy" { default = false } # random weights: a folder with a config.json and a tokenizer is enough

variable "context_length" {
  type        = number
  default     = null
  description = "the longest sequence; SGLang refuses a prompt and an answer that fill it, so it must be more than seq_len. Without it, the model's"
}

# have traces carry Python's stacks, by which SGLang's steps (run_batch) are told; without them a trace is a fraction of
# the size and has no steps
variable "with_stack" { default = true }

variable "ready_within" { default = "15m" }

runtime "sglang" {
  kind      = "server"
  package   = "sglang"
  python    = var.python
  requires  = var.requires
  framework = "SGLANG"
  model     = var.served_name
  labels    = ["experiment_id"]

  command = concat([var.python, "-m", "sglang.launch_server",
    "--model-path", var.model,
    "--served-model-name", var.served_name,
    "--host", "{host}",
    "--port", "{port}",
    "--tp-size", "{tensor_parallel_size}",
    "--pp-size", "{pipeline_parallel_size}",
    "--dtype", var.dtype,
    "--disable-radix-cache",
    ], var.context_length == null ? [] : ["--context-length", tostring(var.context_length)],
  var.dummy ? ["--load-format", "dummy"] : [], var.args)

  env          = merge({ HF_HUB_OFFLINE = var.dummy ? "1" : "0" }, var.env)
  tokenizer    = var.tokenizer
  extra_inputs = { ignore_eos = true }

  ready { within = var.ready_within }

  profiler {
    env        = { SGLANG_TORCH_PROFILER_DIR = "{trace_dir}" }
    start_body = { output_dir = "{trace_dir}", activities = ["CPU", "GPU"], with_stack = var.with_stack }

    # Under nsys the scheduler calls cudaProfilerStart and Stop, which bound the recording.
    nsys_body = { output_dir = "{trace_dir}", activities = ["CUDA_PROFILER"] }
  }
}

output "runtime" { value = runtime.sglang }
