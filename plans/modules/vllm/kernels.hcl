# Hyper-connections, and the single kernels of DeepSeek-V4's attention.

grid "mhc_module" {
  enabled     = contains(var.selection.ops, "mhc_module") && local.wants.mhc
  description = "hyper-connections before and after a block"
  op          = "mhc_module"
  perf_table  = "mhc_module_perf"
  columns     = ["op", "num_tokens", "hidden_size", "hc_mult"]
  constants   = { architecture = "DeepseekV4ForCausalLM", num_sites = 2, sinkhorn_iters = 20 }
  include     = [local.parts.hyper_connections]
}

# One rank has all heads: the kernels pad to the heads that they need, so shares
# of them take the same time.
part "dsv4_kernel" {
  include = [local.parts.decode_batches, local.parts.sm_90, local.parts.chosen]

  rows "model" {
    values = [for r in local.models.dsv4 : {
      model     = r.model
      num_heads = r.num_heads
      selected  = r.selected
    }]
  }

  axis "isl" { values = [1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192] }

  axis "step" {
    values = [
      0, 1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288, 16384,
      32768, 65536, 131072, 262144, 524288, 1048575,
    ]
    description = "tokens in the cache before"
  }

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
  enabled     = contains(var.selection.ops, "dsv4_paged_mqa_logits_module") && local.wants.dsv4
  description = "the paged logits kernel of DeepSeek-V4's indexer"
  op          = "dsv4_paged_mqa_logits_module"
  perf_table  = "dsv4_paged_mqa_logits_module_perf"
  columns     = ["batch_size", "isl", "step", "num_heads", "model"]
  constants   = { tp_size = 1, mla_dtype = "fp8_e4m3", kv_cache_dtype = "fp8", gemm_type = "fp8_block", compress_ratio = 4 }
  include     = [part.dsv4_kernel]
}

grid "dsv4_hca_attn_module" {
  enabled     = contains(var.selection.ops, "dsv4_hca_attn_module") && local.wants.dsv4
  description = "the attention kernel of DeepSeek-V4's heavily compressed layers"
  op          = "dsv4_hca_attn_module"
  perf_table  = "dsv4_hca_attn_module_perf"
  columns     = ["batch_size", "isl", "step", "num_heads", "model"]
  constants   = { tp_size = 1, mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "fp8_block", compress_ratio = 128 }
  include     = [part.dsv4_kernel]
}
