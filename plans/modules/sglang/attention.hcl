# Multi-head and grouped-query attention. A case says which kernels SGLang would
# choose for the model on this GPU, so kernel_source is part of the key.

locals {
  # SGLang's choice for plain models, by SM version.
  default_kernels = { sm89 = "flashinfer", sm90 = "fa3", sm100 = "trtllm_mha", sm103 = "trtllm_mha", sm120 = "flashinfer" }

  # Models for which it chooses differently.
  kernels_of = {
    Gemma4ForConditionalGeneration     = { sm90 = "triton", sm120 = "triton" }
    Llama4ForConditionalGeneration     = { sm120 = "triton" }
    MiMoV2FlashForCausalLM             = { sm89 = "triton", sm100 = "triton", sm103 = "triton", sm120 = "triton" }
    Qwen3_5ForConditionalGeneration    = { sm100 = "triton", sm103 = "triton" }
    Qwen3_5MoeForConditionalGeneration = { sm100 = "triton", sm103 = "triton" }
    GptOssForCausalLM                  = { sm89 = "triton", sm120 = "triton" }
    NemotronHForCausalLM               = { sm100 = "flashinfer", sm103 = "flashinfer" }
  }

  sm_name        = "sm${local.sm}"
  default_kernel = lookup(local.default_kernels, local.sm_name, "none")

  # These count the current token into their window; SGLang's kernels do not.
  inclusive_window = ["Gemma4ForConditionalGeneration", "GptOssForCausalLM"]

  model_heads = [for r in local.models.attention : {
    native_num_heads           = r.num_heads
    native_num_key_value_heads = r.num_kv_heads
    head_dim                   = r.head_dim
    v_head_dim                 = r.v_head_dim
    window_size                = r.window
    # Chunked attention has no window of its own.
    runtime_window_size  = r.window == 0 || r.chunk != null ? -1 : contains(local.inclusive_window, r.architecture) ? r.window - 1 : r.window
    attention_chunk_size = r.chunk
    has_attention_sink   = r.sink
    scaling              = r.scaling
    kernel_source        = try(local.kernels_of[r.architecture][local.sm_name], local.default_kernel)
    architecture         = r.architecture
    served_tp            = r.tp
    selected             = r.selected
  } if contains(r.only, "sglang")]

  query_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96]
  kv_heads    = [1, 2, 4, 8]

  decode_mha_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64]
  decode_gqa_heads = [1, 2, 4, 8, 16, 32, 64, 96, 128]

  not_grouped = "not grouped-query attention: the key/value heads must be fewer than the query heads and divide them"
  sm_unknown  = "SGLang's benchmark knows the attention kernels of SM 89, 90, 100, 103 and 120 only"
}

grid "attention_context" {
  enabled     = contains(module.selection.ops, "attention_context") && local.wants.attention
  description = "attention in prefill"
  op          = "attention_context"
  perf_table  = "context_attention_perf"
  columns = [
    "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype", "attn_dtype",
    "v_head_dim", "runtime_window_size", "attention_chunk_size", "has_attention_sink", "scaling", "kernel_source", "architecture",
  ]
  constants  = { beam_width = 1, step = 0 }
  loop_order = ["head_dim", "num_heads", "num_key_value_heads", "head", "tp_size", "isl", "batch_size"]

  # Models come first: their attributes must win over the plain grid's.
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

  case_set "mha" {
    rows "attributes" {
      values = [local.plain_attributes]
    }

    axis "num_heads" {
      values = reverse(local.query_heads)
    }

    axis "head_dim" {
      values = [128, 256]
    }

    derive "num_key_value_heads" {
      value = num_heads
    }

    derive "v_head_dim" {
      value = head_dim
    }

    filter "base_grid" {
      keep   = module.selection.everything
      reason = local.reasons.base
    }
  }

  case_set "gqa" {
    rows "attributes" {
      values = [local.plain_attributes]
    }

    axis "num_heads" {
      values = reverse(local.query_heads)
    }

    axis "num_key_value_heads" {
      values = local.kv_heads
    }

    axis "head_dim" {
      values = [128, 256]
    }

    derive "v_head_dim" {
      value = head_dim
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

  rows "precision" {
    values = [
      { kv_cache_dtype = "bfloat16", attn_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "bfloat16", min_sm = 89, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "fp8", min_sm = 89, max_sm = 999 },
    ]
  }

  axis "isl" {
    values      = reverse(module.shapes.context_lengths)
    description = "new tokens per sequence"
  }

  axis "batch_size" {
    values = reverse(module.shapes.context_batches)
  }

  filter "sm_known" {
    keep   = local.default_kernel != "none"
    reason = local.sm_unknown
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

  distinct {
    by = ["num_heads", "num_key_value_heads", "head_dim", "window_size", "batch_size", "isl", "kv_cache_dtype", "attn_dtype", "kernel_source"]
  }
}

locals {
  # What a model without peculiarities has.
  plain_attributes = {
    window_size          = 0
    runtime_window_size  = -1
    attention_chunk_size = null
    has_attention_sink   = false
    scaling              = null
    kernel_source        = local.default_kernel
    architecture         = null
  }
}
