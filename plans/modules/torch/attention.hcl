grid "attention_context" {
  enabled    = contains(local.chosen, "attention_context")
  perf_table = "context_attention_perf"
  columns    = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "attn_dtype", "kv_cache_dtype", "kernel_source"]
  constants  = { beam_width = 1, step = 0 }

  rows "heads" { values = local.heads }
  axis "isl" { values = [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384] }
  axis "batch_size" { values = [1, 2, 4, 8, 16, 32, 64] }
  axis "kernel_source" { values = local.backends } # backend of scaled_dot_product_attention
  axis "window_size" { values = [0] }
  axis "attn_dtype" { values = ["bfloat16"] }
  axis "kv_cache_dtype" { values = ["bfloat16"] }

  filter "tokens" {
    keep   = batch_size * isl <= (num_heads == num_key_value_heads ? 32768 : 65536)
    reason = "a prefill step is not given more tokens"
  }
}

grid "attention_generation" {
  enabled    = contains(local.chosen, "attention_generation")
  perf_table = "generation_attention_perf"
  columns    = ["batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype", "kernel_source"]
  constants  = { beam_width = 1, isl = 1, attn_dtype = "bfloat16" }

  rows "heads" { values = local.heads }

  # Tokens in the cache, the decoded one included.
  axis "cached" { values = [16, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] }
  derive "step" { value = cached - 1 }
  axis "batch_size" { values = [1, 2, 4, 8, 16, 32, 64, 128, 256] }
  axis "kernel_source" { values = local.backends } # backend of scaled_dot_product_attention
  axis "window_size" { values = [0] }
  axis "kv_cache_dtype" { values = ["bfloat16"] }

  filter "cache" {
    keep   = batch_size * cached * num_key_value_heads <= 8388608
    reason = "the cache of the step would not fit beside a model's weights"
  }
}
