# The op grids of vLLM 0.24. What it shares with other backends is in
# modules/common; shapes of models are in modules/models.

variable "selection" { description = "The outputs of modules/selection for this backend." }

variable "formats" {
  type        = list(string)
  default     = []
  description = "Plan linear layers and caches of attention in these formats only; empty plans all."

  validation {
    condition     = alltrue([for f in var.formats : contains(["bfloat16", "fp8", "fp8_block", "nvfp4"], f)])
    error_message = "Formats of linear layers are bfloat16, fp8, fp8_block and nvfp4; caches are bfloat16 or fp8."
  }
}

module "shapes" { source = "../shapes" }

module "common" {
  source    = "../common"
  selection = var.selection

  grids = [
    "compute_scale", "encoder_attention", "mla_bmm_gen_pre", "mla_bmm_gen_post", "mla_context_module",
    "mla_generation_module", "dsa_context_module", "dsa_generation_module", "msa_context_module",
    "msa_generation_module", "dsv4_csa_context_module", "dsv4_csa_generation_module",
    "dsv4_hca_context_module", "dsv4_hca_generation_module", "gdn", "kda",
  ]

  # vLLM has no FP8 path for the absorbed products.
  bmm_precisions = [
    { bmm_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
  ]

  module_precisions = {
    # Attention itself in FP8 is a prefill kernel of SM 100.
    mla_context = concat(local.module_precisions, [
      { mla_dtype = "fp8", kv_cache_dtype = "fp8", gemm_type = "bfloat16", min_sm = 100, max_sm = 999 },
      { mla_dtype = "fp8", kv_cache_dtype = "fp8", gemm_type = "fp8_block", min_sm = 100, max_sm = 999 },
      { mla_dtype = "fp8", kv_cache_dtype = "fp8", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
    ])
    mla_generation = local.module_precisions
    dsa            = local.module_precisions
    msa = [
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "bfloat16", min_sm = 0, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "bfloat16", min_sm = 0, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "fp8_block", min_sm = 89, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "fp8_block", min_sm = 89, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
    ]
  }

  cache_budget = floor(var.selection.memory * 0.9)
}

locals {
  sm     = var.selection.sm
  models = var.selection.models
  wants  = var.selection.wants
  parts  = module.common.parts

  module_precisions = [
    { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "bfloat16", min_sm = 0, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "bfloat16", min_sm = 90, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "fp8_block", min_sm = 89, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "fp8_block", min_sm = 90, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
  ]
}
