# SGLang's server as a runtime: python -m sglang.launch_server.

variable "model" {
  type        = string
  description = "a checkpoint's folder or name"
}

variable "served_name" {
  type        = string
  default     = "model"
  description = "the name that requests ask for"
}

variable "python" {
  type        = string
  default     = "python3"
  description = "the interpreter that has SGLang"
}

variable "requires" {
  type    = string
  default = ""
}

variable "dtype" {
  type    = string
  default = "bfloat16"
}

variable "dummy" {
  type        = bool
  default     = false
  description = "random weights and no tokenizer: a config.json is enough"
}

variable "args" {
  type        = list(string)
  default     = []
  description = "further arguments"
}

variable "env" {
  type    = map(string)
  default = {}
}

variable "tokenizer" {
  type        = string
  default     = ""
  description = "the folder of the model's tokenizer.json, for exact prompts"
}

variable "ready_within" {
  type    = string
  default = "15m"
}

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
    "--context-length", "{seq_len}",
    "--dtype", var.dtype,
    "--disable-radix-cache",
  ], var.dummy ? ["--load-format", "dummy"] : [], var.args)

  env          = var.env
  tokenizer    = var.tokenizer
  extra_inputs = { ignore_eos = true }

  ready { within = var.ready_within }

  profiler {
    env = { SGLANG_TORCH_PROFILER_DIR = "{trace_dir}" }
    start_body = {
      output_dir = "{trace_dir}"
      activities = ["CPU", "GPU"]
    }
  }
}

output "runtime" { value = runtime.sglang }
