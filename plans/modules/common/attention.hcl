# Multi-head and grouped-query attention, and attention of vision encoders.

locals {
  # Heads of the base grid. A set has query heads, head widths, windows and whether heads without grouping
  # (key/value heads as many as query heads) belong to it.
  base_heads = { for phase, sets in try(var.attention.base, {}) : phase => flatten([
    for s in sets : [for d in s.head_dim : [for w in s.window_size : [for h in reverse(s.num_heads) : [
      for kv in concat(s.mha ? [h] : [], [for kv in [1, 2, 4, 8] : kv if kv < h && h % kv == 0 && s.gqa]) : merge({
        num_heads           = h
        num_key_value_heads = kv
        head_dim            = d
        v_head_dim          = d
        window_size         = w
      }, var.attention.plain)
    ]]]]
  ]) }

  model_heads = [for r in local.models.attention : merge({
    native_num_heads           = r.num_heads
    native_num_key_value_heads = r.num_kv_heads
    head_dim                   = r.head_dim
    v_head_dim                 = r.v_head_dim
    window_size                = r.window
    served_tp                  = r.tp
    selected                   = r.selected
  }, try(var.attention.heads[r.profile], {}))]

  head_columns = ["num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype"]
}

grid "attention_context" {
  enabled     = local.plans.attention_context
  description = "attention in prefill"
  perf_table  = "context_attention_perf"
  columns     = concat(["batch_size", "isl"], local.head_columns, var.attention.columns.context)
  constants   = merge({ beam_width = 1, step = 0 }, var.attention.constants)
  loop_order  = ["head", "tp_size", "isl", "batch_size"]
  include     = [local.parts.sm_gate, try(var.attention.limits.context, null)]

  # Models come first: their attributes win over those of base heads.
  case_set "model_heads" {
    include = [local.parts.served_kv_heads]
    rows "head" { values = local.model_heads }
  }

  case_set "base" {
    include = [local.parts.base_grid]
    rows "head" { values = local.base_heads.context }
  }

  rows "precision" { values = var.formats.context }
  axis "isl" { values = reverse(module.shapes.context_lengths) } # new tokens per sequence
  axis "batch_size" { values = reverse(module.shapes.context_batches) }

  filter "mha_tokens" {
    keep   = num_key_value_heads != num_heads || (batch_size * isl <= 65536 && batch_size <= 128)
    reason = "without grouping the cache grows with every head: at most 65536 tokens and 128 sequences"
  }

  filter "gqa_tokens" {
    keep   = num_key_value_heads == num_heads || batch_size * isl <= 131072
    reason = "more than 131072 tokens in one prefill: schedulers chunk it before"
  }

  filter "kv_elements" {
    keep   = batch_size * isl * num_key_value_heads * head_dim * 2 < 2147483647
    reason = "keys and values together have 2^31 elements or more, beyond the kernel's 32-bit offsets"
  }

  distinct { by = concat(["batch_size", "isl"], local.head_columns, var.attention.key.context) }
}

# The limits of the framework derive max_batch and max_batch_doubled: the largest batch at this length and at twice
# this length.
grid "attention_generation" {
  enabled     = local.plans.attention_generation
  description = "attention in decode"
  perf_table  = "generation_attention_perf"
  columns     = concat(["batch_size", "step"], local.head_columns, var.attention.columns.generation)
  constants   = { beam_width = 1, isl = 1, attn_dtype = "bfloat16" }
  loop_order  = ["head", "tp_size", "batch_size", "target_seq"]
  include     = [local.parts.sm_gate, var.attention.limits.generation]

  case_set "model_heads" {
    include = [local.parts.served_kv_heads]
    rows "head" { values = local.model_heads }
  }

  case_set "base" {
    include = [local.parts.base_grid]
    rows "head" { values = local.base_heads.generation }
  }

  rows "precision" { values = var.formats.generation }
  axis "target_seq" { values = module.shapes.cache_lengths } # tokens in the cache after the step
  axis "batch_size" { values = powers(2, 0, 11) }
  derive "step" { value = target_seq - 1 } # tokens in the cache before the decoded one

  filter "batch_cap" {
    keep   = batch_size <= max_batch
    reason = "batch times length times query heads is beyond the cache of a node (2^23, 2^24 when grouped)"
  }

  filter "few_batches" {
    keep   = max_batch >= 8
    reason = "fewer than four batch sizes fit at this length: too few points to interpolate between"
  }

  filter "longest_of_large_batches" {
    keep   = batch_size < 256 || (target_seq < 131072 && max_batch_doubled >= max(batch_size, 8))
    reason = "from batch 256 on the longest length that fits is left out: it takes most of the time and is rarely served"
  }

  distinct { by = concat(["batch_size", "step"], local.head_columns, var.attention.key.generation) }
}

# No mask, no cache, bfloat16 only. Lengths are patch counts of common image sizes, and powers of two.
grid "encoder_attention" {
  enabled     = local.plans.encoder_attention
  description = "attention of vision encoders"
  perf_table  = "encoder_attention_perf"
  columns     = ["batch_size", "isl", "num_heads", "head_dim"]
  constants   = { attn_dtype = "bfloat16" }

  case_set "base" {
    include = [local.parts.base_grid]
    axis "num_heads" { values = [2, 4, 5, 8, 10, 12, 14, 16, 20, 24, 32] }
    axis "head_dim" { values = [64, 72, 80] }
  }

  case_set "model_heads" {
    include = [local.parts.served_heads]

    rows "head" {
      values = [for r in local.models.encoder : {
        native_num_heads = r.num_heads
        head_dim         = r.head_dim
        served_tp        = r.tp
        selected         = r.selected
      }]
    }
  }

  axis "isl" {
    values = [
      1, 13, 16, 26, 32, 52, 64, 104, 128, 192, 256, 400, 512, 576, 1024, 1296, 1500, 1536, 2048, 2304, 3072, 3136,
      4096, 5184, 6144, 6400, 7744, 8192, 9216, 10240, 10816, 12288, 12544, 14400, 16384, 24576, 32768, 49152, 65536,
    ]
    description = "patches per image"
  }

  axis "batch_size" { values = powers(2, 0, 6) } # images

  filter "tokens" {
    keep   = batch_size * isl <= 131072
    reason = "more than 131072 patches at once: no encoder is fed so much, and the run takes seconds"
  }

  filter "index_32bit" {
    keep   = 8 * batch_size * isl * num_heads * head_dim < 2147483648
    reason = "queries, keys, values and output take 2^31 bytes or more, beyond the kernel's 32-bit offsets"
  }

  distinct {}
}
