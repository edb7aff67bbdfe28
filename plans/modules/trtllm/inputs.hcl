# The op grids of TensorRT-LLM 1.3. What it shares with other backends is in
# modules/common; shapes of models are in modules/models.

variable "selection" { description = "The outputs of modules/selection for this backend." }

variable "gemm_dtypes" {
  type        = list(string)
  default     = []
  description = "Formats of linear layers; none means all."
}

module "shapes" { source = "../shapes" }

module "common" {
  source    = "../common"
  selection = var.selection

  grids = [
    "compute_scale", "encoder_attention", "mla_context", "mla_generation", "mla_bmm_gen_pre",
    "mla_bmm_gen_post", "mla_context_module", "mla_generation_module", "dsa_context_module",
    "dsa_generation_module", "msa_context_module", "msa_generation_module", "dsv4_csa_context_module",
    "dsv4_csa_generation_module", "dsv4_hca_context_module", "dsv4_hca_generation_module", "gdn",
  ]

  bmm_precisions = [
    { bmm_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
    { bmm_dtype = "fp8", min_sm = 87, max_sm = 999 },
  ]

  latent_precisions = [
    { kv_cache_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
    { kv_cache_dtype = "fp8", min_sm = 0, max_sm = 999 },
  ]

  # Attention itself always multiplies in bfloat16 here.
  module_precisions = {
    mla_context    = local.latent_module_precisions
    mla_generation = local.latent_module_precisions
    dsa = [
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "bfloat16", min_sm = 0, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "bfloat16", min_sm = 100, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "fp8_block", min_sm = 89, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "fp8_block", min_sm = 100, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
    ]
    msa = [
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "bfloat16", min_sm = 0, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "fp8_block", min_sm = 89, max_sm = 999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
    ]
  }
}

locals {
  sm     = var.selection.sm
  models = var.selection.models
  wants  = var.selection.wants
  parts  = module.common.parts

  latent_module_precisions = [
    { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "bfloat16", min_sm = 0, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "bfloat16", min_sm = 87, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "fp8_block", min_sm = 89, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "fp8_block", min_sm = 89, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "nvfp4", min_sm = 100, max_sm = 999 },
  ]
}
