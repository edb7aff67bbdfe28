# The op grids of SGLang 0.5. What it shares with other backends is in
# modules/common; shapes of models are in modules/models.

variable "system" { description = "The system to plan for." }

variable "ops" {
  type    = list(string)
  default = []
}

variable "models" {
  type    = list(string)
  default = []
}

variable "tp" {
  type    = list(number)
  default = []
}

variable "device_memory" {
  type        = number
  default     = null
  description = "Bytes that a process can allocate; null takes the system's."
}

module "selection" {
  source        = "../selection"
  system        = var.system
  all_ops       = keys(module.frameworks.bindings)
  ops           = var.ops
  models        = var.models
  tp            = var.tp
  device_memory = var.device_memory
}

module "shapes" { source = "../shapes" }

module "frameworks" {
  source  = "../frameworks"
  backend = "sglang"
}

module "common" {
  source    = "../common"
  selection = module.selection

  grids = [
    "compute_scale", "encoder_attention", "mla_context", "mla_generation", "mla_bmm_gen_pre",
    "mla_bmm_gen_post", "gdn", "kda",
  ]

  bmm_precisions = [
    { bmm_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
    { bmm_dtype = "fp8", min_sm = 89, max_sm = 999 },
  ]

  # An FP8 latent cache needs FlashAttention 3 or TensorRT-LLM's kernels; SM 89
  # and 120 have only Triton's, older ones none that SGLang's benchmark knows.
  latent_precisions = [
    { kv_cache_dtype = "bfloat16", min_sm = 89, max_sm = 120 },
    { kv_cache_dtype = "fp8", min_sm = 90, max_sm = 103 },
  ]
}

locals {
  sm     = module.selection.sm
  models = module.selection.models
  wants  = module.selection.wants
  parts  = module.common.parts

  # Memory that a process can allocate, and what SGLang leaves of it to a cache.
  memory       = module.selection.memory
  cache_budget = floor(local.memory * 0.9)

  # SGLang's default chunk of prefill tokens, by device memory.
  prefill_chunk = local.memory < 35 * 1073741824 ? 2048 : local.memory < 60 * 1073741824 ? 4096 : local.memory < 160 * 1073741824 ? 8192 : 16384
}
