# The single kernels of DeepSeek-V4's attention. One rank has all heads: the kernels pad to the heads that they need,
# so shares of them take the same time.

locals {
  lengths = concat([1, 4, 8, 16, 32, 64, 128, 256, 512, 1024], module.shapes.long_lengths)
}

part "dsv4_kernel" {
  include = [module.common.parts.decode_batches, module.common.parts.sm_90, module.common.parts.chosen]

  rows "model" {
    values = [for r in var.selection.models.dsv4 : { model = r.model, num_heads = r.num_heads, selected = r.selected }]
  }

  axis "isl" { values = [for n in local.lengths : n if n <= 8192] }
  axis "step" { values = concat([0], local.lengths) } # tokens in the cache before

  filter "chunk" {
    keep   = batch_size * isl <= 8192
    reason = "more than 8192 new tokens are several chunks of prefill"
  }

  filter "cache" {
    keep   = batch_size * (isl + step) <= 1048576
    reason = "more than 2^20 tokens over the batch: the model's context ends there"
  }
}

grid "dsv4_paged_mqa_logits_module" {
  enabled     = var.selection.plans.dsv4_paged_mqa_logits_module
  description = "the paged logits kernel of DeepSeek-V4's indexer"
  perf_table  = "dsv4_paged_mqa_logits_module_perf"
  columns     = ["batch_size", "isl", "step", "num_heads", "model"]
  constants   = { tp_size = 1, mla_dtype = "fp8_e4m3", kv_cache_dtype = "fp8", gemm_type = "fp8_block", compress_ratio = 4 }
  include     = [part.dsv4_kernel]
}

grid "dsv4_hca_attn_module" {
  enabled     = var.selection.plans.dsv4_hca_attn_module
  description = "the attention kernel of DeepSeek-V4's heavily compressed layers"
  perf_table  = "dsv4_hca_attn_module_perf"
  columns     = ["batch_size", "isl", "step", "num_heads", "model"]
  constants   = { tp_size = 1, mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "fp8_block", compress_ratio = 128 }
  include     = [part.dsv4_kernel]
}
