# Do rows measure the kernels that vLLM serves with? The ops of one model are collected for the shapes of two
# steps, a server of the same version is traced, and the gate compares the names of their kernels.
#
#   aicplan plan  plans/h200_served_kernels.hcl
#   aicplan apply plans/h200_served_kernels.hcl --var collector_root=DIR --var "model=$PWD/plans/experiments/qwen3-8b"
#
# collector_root is a checkout with vLLM's collectors. The server has random weights, so a folder with the model's
# config.json is enough. Another model needs its shape, and another version of vLLM its release.

include = ["modules/database/system.hcl"]

# A checkout of aiconfigurator or aisimulate, whose collectors measure the ops.
variable "collector_root" { default = "" }

variable "model" { default = "Qwen/Qwen3-8B" } # The model's folder or name, as vLLM takes it.

variable "shape" {
  type        = object({ hidden_size = number, inter_size = number, num_heads = number, num_kv_heads = number, head_dim = number, vocabulary = number })
  default     = { hidden_size = 4096, inter_size = 12288, num_heads = 32, num_kv_heads = 8, head_dim = 128, vocabulary = 151936 }
  description = "The model's dense layers."
}

variable "release" { default = "0.24.0" } # vLLM's version.

# Tokens of a prompt. One request is open at a time, so a step prefills so many tokens or decodes one.
variable "isl" { default = 1024 }

variable "osl" { default = 8 }
variable "python" { default = "python3" }          # The interpreter that has vLLM.
variable "program" { default = ["vllm", "serve"] } # What starts the server.

variable "server_args" {
  type        = list(string)
  default     = []
  description = "Further arguments of the server."
}

variable "ignore" {
  type        = list(string)
  default     = []
  description = "Regular expressions of kernels that are not compared."
}

module "frameworks" {
  source  = "./modules/frameworks"
  backend = "vllm"
}

runtime "collectors" {
  kind           = "python"
  framework      = "VLLM"
  package        = "vllm"
  requires       = "==${var.release}"
  python         = var.python
  env            = module.frameworks.runtime_env
  collector_root = var.collector_root
  kernels        = true
}

locals {
  s     = var.shape
  heads = { num_heads = local.s.num_heads, num_key_value_heads = local.s.num_kv_heads, head_dim = local.s.head_dim, window_size = 0, kv_cache_dtype = "bfloat16" }

  widths = [
    { n = (local.s.num_heads + 2 * local.s.num_kv_heads) * local.s.head_dim, k = local.s.hidden_size },
    { n = local.s.hidden_size, k = local.s.num_heads * local.s.head_dim },
    { n = 2 * local.s.inter_size, k = local.s.hidden_size },
    { n = local.s.hidden_size, k = local.s.inter_size },
  ]
}

# The last token of a prompt alone goes through the head.
grid "gemm" {
  perf_table = "gemm_perf"
  columns    = ["gemm_dtype", "m", "n", "k"]

  axis "gemm_dtype" { values = ["bfloat16"] }

  rows "product" {
    values = concat(
      flatten([for m in [var.isl, 1] : [for w in local.widths : merge(w, { m = m })]]),
      [{ m = 1, n = local.s.vocabulary, k = local.s.hidden_size }],
    )
  }
}

grid "attention_context" {
  perf_table = "context_attention_perf"
  columns    = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype", "attn_dtype"]
  constants  = { beam_width = 1, step = 0 }
  rows "step" { values = [merge(local.heads, { batch_size = 1, isl = var.isl, attn_dtype = "bfloat16" })] }
}

grid "attention_generation" {
  perf_table = "generation_attention_perf"
  columns    = ["batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype"]
  constants  = { beam_width = 1, isl = 1, attn_dtype = "bfloat16" }
  rows "step" { values = [merge(local.heads, { batch_size = 1, step = var.isl })] }
}

collect "op" {
  description = "what the tables have for the shapes of the server's steps"
  for_each    = { gemm = grid.gemm, attention_context = grid.attention_context, attention_generation = grid.attention_generation }
  grid        = each.value
  runtime     = runtime.collectors
  system      = system.this
  bind        = module.frameworks.bindings[each.key]
}

module "vllm" {
  source   = "./modules/serving/vllm"
  model    = var.model
  program  = var.program
  python   = var.python
  requires = "==${var.release}"
  dummy    = true
  args     = var.server_args
}

grid "served" {
  op = "completions"
  axis "tensor_parallel_size" { values = [1] }
  axis "pipeline_parallel_size" { values = [1] }
  axis "seq_len" { values = [var.isl + var.osl + 8] }
}

collect "served" {
  description = "the server, with one request open at a time"
  grid        = grid.served
  runtime     = module.vllm.runtime
  system      = system.this

  load {
    prompt      = "token_ids"
    vocabulary  = 100000
    isl         = var.isl
    osl         = var.osl
    concurrency = 1
    requests    = 4
  }

  trace {
    requests = 2
    osl      = var.osl
    required = true
  }
}

gate "kernels" {
  description = "rows and server run the same kernels"
  input       = collect.served

  check "served" {
    rows   = values(collect.op)
    ignore = var.ignore
  }
}

report "kernels" {
  title  = "Kernels of rows and of the server: vLLM ${var.release} on ${var.system}"
  inputs = concat([collect.served], values(collect.op))
  file   = "served_kernels"
}
