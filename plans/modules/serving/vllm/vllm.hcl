# vLLM's server as a runtime: vllm serve.

include = ["../server.hcl"]

variable "served_name" { default = "model" } # the name that requests ask for

# what starts the server: ["PYTHON", "-m", "vllm.entrypoints.cli.main", "serve"] where there is no script
variable "program" { default = ["vllm", "serve"] }

variable "requires" { default = ">=0.13" } # versions whose profiler is set by --profiler-config
variable "dtype" { default = "bfloat16" }
variable "dummy" { default = false } # random weights and no tokenizer: a config.json is enough

variable "labels" {
  type        = list(string)
  default     = []
  description = "columns of cases that only label them"
}

variable "ready_within" { default = "15m" }
variable "with_stack" { default = false } # have traces carry Python's stacks, which are most of a trace

runtime "vllm" {
  kind      = "server"
  package   = "vllm"
  python    = var.python
  requires  = var.requires
  framework = "VLLM"
  model     = var.served_name
  labels    = concat(["experiment_id"], var.labels)

  command = concat(var.program, [
    var.model,
    "--served-model-name", var.served_name,
    "--host", "{host}",
    "--port", "{port}",
    "--tensor-parallel-size", "{tensor_parallel_size}",
    "--pipeline-parallel-size", "{pipeline_parallel_size}",
    "--max-model-len", "{seq_len}",
    "--dtype", var.dtype,
    "--no-enable-prefix-caching",
    "--generation-config", "vllm",
  ], var.dummy ? ["--load-format", "dummy", "--skip-tokenizer-init"] : [], var.args)

  # Execution traces of PyTorch appear in the temporary folder of each process.
  env = merge({ HF_HUB_OFFLINE = var.dummy ? "1" : "0" }, var.env)

  tokenizer    = var.tokenizer
  extra_inputs = var.dummy ? { ignore_eos = true, return_token_ids = true } : { ignore_eos = true }

  ready { within = var.ready_within }

  profiler {
    args = ["--profiler-config", jsonencode({
      profiler                  = "torch"
      torch_profiler_dir        = "{trace_dir}"
      torch_profiler_with_stack = var.with_stack
      ignore_frontend           = true
    })]
    env       = { ENABLE_PYTORCH_EXECUTION_TRACE = "1", TMPDIR = "{work_dir}" }
    nsys_args = ["--profiler-config", jsonencode({ profiler = "cuda" })]
  }
}

output "runtime" { value = runtime.vllm }
