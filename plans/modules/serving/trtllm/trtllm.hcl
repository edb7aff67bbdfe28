# TensorRT-LLM's server as a runtime: trtllm-serve. It has no API for its profiler:
# traces are taken by nsys (trace { torch = false, nsys = true }). The server
# cannot be asked to call cudaProfilerStart, so nsys records from the start to the end.

include = ["../server.hcl"]

variable "served_name" { default = "" } # the name that requests ask for; empty for the last part of model
variable "program" { default = ["trtllm-serve"] }
variable "requires" { default = "" }

# the file of --extra_llm_api_options; empty for the module's, which turns the reuse of cached prompts off
variable "options" { default = "" }

variable "ready_within" { default = "20m" }

runtime "trtllm" {
  kind      = "server"
  package   = "tensorrt_llm"
  python    = var.python
  requires  = var.requires
  framework = "TRTLLM"
  model     = var.served_name != "" ? var.served_name : element(split("/", var.model), length(split("/", var.model)) - 1)
  labels    = ["experiment_id"]

  command = concat(var.program, [
    var.model,
    "--backend", "pytorch",
    "--host", "{host}",
    "--port", "{port}",
    "--tp_size", "{tensor_parallel_size}",
    "--pp_size", "{pipeline_parallel_size}",
    "--max_seq_len", "{seq_len}",
    "--extra_llm_api_options", var.options != "" ? var.options : "{plan_dir}/${path.module}/options.yaml",
  ], var.args)

  env          = var.env
  tokenizer    = var.tokenizer
  extra_inputs = { ignore_eos = true }

  ready { within = var.ready_within }
  stop { within = "30s" }
}

output "runtime" { value = runtime.trtllm }
