# Multi-head and grouped-query attention. The backend of a case is TRTLLM, or
# FLASHINFER for heads that TensorRT-LLM's own kernels do not take; the table
# distinguishes them by kernel_source.

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

  # No limit at all, where a limit is written as a number.
  no_limit = 1e15

  decode_mha_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64]
  decode_gqa_heads = [1, 2, 4, 8, 16, 32, 64, 96, 128]

  gqa_on_sm100 = "TensorRT-LLM's SM100 kernels group at most 32 query heads per key/value head, or multiples of 32"
}

part "plain" {
  derive "attn_backend" { value = "TRTLLM" }
}

grid "attention_context" {
  enabled     = contains(var.selection.ops, "attention_context") && local.wants.attention
  description = "attention in prefill"
  op          = "attention_context"
  perf_table  = "context_attention_perf"
  columns     = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype", "attn_dtype", "attn_backend"]
  constants   = { beam_width = 1, step = 0 }
  loop_order  = ["head_dim", "num_heads", "num_key_value_heads", "window_size", "head", "tp_size", "isl", "batch_size"]
  include     = [local.parts.attention_context]

  # Heads of 64 are measured with and without gpt-oss's window.
  case_set "head64_mha" {
    include = [part.plain, local.parts.base_grid]

    axis "num_heads" { values = reverse(local.query_heads) }
    axis "head_dim" { values = [64] }
    axis "window_size" { values = [0, 128] }

    derive "num_key_value_heads" { value = num_heads }
  }

  case_set "head64_gqa" {
    include = [part.plain, local.parts.base_grid, local.parts.grouped]

    axis "num_heads" { values = reverse(local.query_heads) }
    axis "num_key_value_heads" { values = local.kv_heads }
    axis "head_dim" { values = [64] }
    axis "window_size" { values = [0, 128] }
  }

  case_set "mha" {
    include = [part.plain, local.parts.base_grid]

    axis "num_heads" { values = reverse(local.query_heads) }
    axis "head_dim" { values = [128, 256] }
    axis "window_size" { values = [0] }

    derive "num_key_value_heads" { value = num_heads }
  }

  case_set "gqa" {
    include = [part.plain, local.parts.base_grid, local.parts.grouped]

    axis "num_heads" { values = reverse(local.query_heads) }
    axis "num_key_value_heads" { values = local.kv_heads }
    axis "head_dim" { values = [128, 256] }
    axis "window_size" { values = [0] }
  }

  case_set "model_heads" {
    include = [local.parts.served_kv_heads]

    rows "head" { values = local.model_heads }
  }

  rows "precision" {
    values = [
      { kv_cache_dtype = "bfloat16", attn_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "bfloat16", min_sm = 87, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "fp8", min_sm = 87, max_sm = 999 },
    ]
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
