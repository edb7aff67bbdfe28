# The op grids of SGLang 0.5. What it shares with other backends is in
# modules/common; shapes of models are in modules/models.

variable "selection" { description = "The outputs of modules/selection for this backend." }

module "shapes" { source = "../shapes" }

module "common" {
  source    = "../common"
  selection = var.selection

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
  sm     = var.selection.sm
  models = var.selection.models
  wants  = var.selection.wants
  parts  = module.common.parts

  # Memory that a process can allocate, and what SGLang leaves of it to a cache.
  memory       = var.selection.memory
  cache_budget = floor(local.memory * 0.9)

  # SGLang's default chunk of prefill tokens, by device memory.
  prefill_chunk = local.memory < 35 * 1073741824 ? 2048 : local.memory < 60 * 1073741824 ? 4096 : local.memory < 160 * 1073741824 ? 8192 : 16384
}
