# Multi-head and grouped-query attention. The backend of a case is TRTLLM, or
# FLASHINFER for heads that TensorRT-LLM's own kernels do not take; the table
# tells them apart by kernel_source.

locals {
  # Heads of the models. TensorRT-LLM sends Gemma's wide heads to FlashInfer.
  model_heads = [for r in local.models.attention : {
    native_num_heads           = r.num_heads
    native_num_key_value_heads = r.num_kv_heads
    head_dim                   = r.head_dim
    window_size                = r.window
    served_tp                  = r.tp
    attn_backend               = startswith(r.profile, "gemma4") ? "FLASHINFER" : "TRTLLM"
    selected                   = r.selected
  } if contains(r.only, "trtllm")]

  query_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96]
  kv_heads    = [1, 2, 4, 8]

  decode_mha_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64]
  decode_gqa_heads = [1, 2, 4, 8, 16, 32, 64, 96, 128]

  not_grouped  = "not grouped-query attention: the key/value heads must be fewer than the query heads and divide them"
  gqa_on_sm100 = "TensorRT-LLM's SM100 kernels group at most 32 query heads per key/value head, or multiples of 32"
}

grid "attention_context" {
  enabled     = contains(module.selection.ops, "attention_context") && local.wants.attention
  description = "attention in prefill"
  op          = "attention_context"
  perf_table  = "context_attention_perf"
  columns     = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype", "attn_dtype", "attn_backend"]
  constants   = { beam_width = 1, step = 0 }
  loop_order  = ["head_dim", "num_heads", "num_key_value_heads", "window_size", "head", "tp_size", "isl", "batch_size"]

  # Heads of 64 are measured with and without gpt-oss's window.
  case_set "head64_mha" {
    axis "num_heads" {
      values = reverse(local.query_heads)
    }

    axis "head_dim" {
      values = [64]
    }

    axis "window_size" {
      values = [0, 128]
    }

    derive "num_key_value_heads" {
      value = num_heads
    }

    derive "attn_backend" {
      value = "TRTLLM"
    }

    filter "base_grid" {
      keep   = module.selection.everything
      reason = local.reasons.base
    }
  }

  case_set "head64_gqa" {
    axis "num_heads" {
      values = reverse(local.query_heads)
    }

    axis "num_key_value_heads" {
      values = local.kv_heads
    }

    axis "head_dim" {
      values = [64]
    }

    axis "window_size" {
      values = [0, 128]
    }

    derive "attn_backend" {
      value = "TRTLLM"
    }

    filter "grouped" {
      keep   = num_key_value_heads < num_heads && num_heads % num_key_value_heads == 0
      reason = local.not_grouped
    }

    filter "base_grid" {
      keep   = module.selection.everything
      reason = local.reasons.base
    }
  }

  case_set "mha" {
    axis "num_heads" {
      values = reverse(local.query_heads)
    }

    axis "head_dim" {
      values = [128, 256]
    }

    axis "window_size" {
      values = [0]
    }

    derive "num_key_value_heads" {
      value = num_heads
    }

    derive "attn_backend" {
      value = "TRTLLM"
    }

    filter "base_grid" {
      keep   = module.selection.everything
      reason = local.reasons.base
    }
  }

  case_set "gqa" {
    axis "num_heads" {
      values = reverse(local.query_heads)
    }

    axis "num_key_value_heads" {
      values = local.kv_heads
    }

    axis "head_dim" {
      values = [128, 256]
    }

    axis "window_size" {
      values = [0]
    }

    derive "attn_backend" {
      value = "TRTLLM"
    }

    filter "grouped" {
      keep   = num_key_value_heads < num_heads && num_heads % num_key_value_heads == 0
      reason = local.not_grouped
    }

    filter "base_grid" {
      keep   = module.selection.everything
      reason = local.reasons.base
    }
  }

  case_set "model_heads" {
    rows "head" {
      values = local.model_heads
    }

    axis "tp_size" {
      values = module.selection.tp_sizes
    }

    derive "num_heads" {
      value = floor(native_num_heads / tp_size)
    }

    derive "num_key_value_heads" {
      value       = ceil_div(native_num_key_value_heads, tp_size)
      description = "every rank keeps at least one"
    }

    filter "tp_served" {
      keep   = contains(served_tp, tp_size) && native_num_heads % tp_size == 0
      reason = local.reasons.served
    }

    filter "kv_divides" {
      keep   = num_key_value_heads <= num_heads && num_heads % num_key_value_heads == 0
      reason = "the key/value heads of a rank do not divide its query heads"
    }

    filter "chosen" {
      keep   = selected
      reason = local.reasons.selected
    }
  }

  rows "precision" {
    values = [
      { kv_cache_dtype = "bfloat16", attn_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "bfloat16", min_sm = 87, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "fp8", min_sm = 87, max_sm = 999 },
    ]
  }

  axis "isl" {
    values      = reverse(module.shapes.context_lengths)
    description = "new tokens per sequence"
  }

  axis "batch_size" {
    values = reverse(module.shapes.context_batches)
  }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = local.reasons.sm
  }

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

  filter "gqa_ratio_sm100" {
    keep   = local.sm < 100 || attn_backend != "TRTLLM" || floor(num_heads / num_key_value_heads) < 32 || floor(num_heads / num_key_value_heads) % 32 == 0
    reason = local.gqa_on_sm100
  }

  # Found by running: these combinations crash FP8 attention on SM 120.
  filter "fp8_attention_sm120" {
    keep = local.sm < 120 || attn_dtype != "fp8" || batch_size * isl < (
      num_heads == num_key_value_heads ? (
        head_dim == 128 ? (num_heads == 96 ? 65536 : local.no_limit) :
        head_dim == 256 ? (num_heads == 96 ? 32768 : num_heads == 64 ? 49152 : num_heads == 48 ? 65536 : local.no_limit) :
        local.no_limit
        ) : head_dim == 256 ? (
        num_heads == 96 && contains([1, 4], num_key_value_heads) ? 98304 :
        num_heads == 96 && num_key_value_heads == 8 ? 81920 :
        num_heads == 64 && contains([1, 2, 4, 8], num_key_value_heads) ? 131072 :
        num_heads == 48 && num_key_value_heads == 8 ? 131072 : local.no_limit
      ) : local.no_limit
    )
    reason = "FP8 attention on SM 120 fails with so many heads and tokens"
  }

  distinct {}
}

locals {
  no_limit = 1e15
}
