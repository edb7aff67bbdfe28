op = "attention_context"
perf_table = "context_attention_perf"
columns = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype", "attn_dtype", "attn_backend"]
case_set "default_head64_mha" {
  axis "num_heads" {
    values = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96]
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
}
case_set "default_head64_gqa" {
  axis "num_heads" {
    values = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96]
  }
  axis "num_key_value_heads" {
    values = [1, 2, 4, 8]
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
  filter "kv_divides" {
    keep   = (num_key_value_heads < num_heads) && ((num_heads % num_key_value_heads) == 0)
    reason = "query heads must divide into key-value heads"
  }
}
case_set "default_mha" {
  axis "num_heads" {
    values = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96]
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
}
case_set "default_gqa" {
  axis "num_heads" {
    values = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96]
  }
  axis "num_key_value_heads" {
    values = [1, 2, 4, 8]
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
  filter "kv_divides" {
    keep   = (num_key_value_heads < num_heads) && ((num_heads % num_key_value_heads) == 0)
    reason = "query heads must divide into key-value heads"
  }
}
case_set "model_heads" {
  rows "head" {
    values = [
      { shape_profile = "gemma4_swa_attention", native_num_heads = 16, native_num_key_value_heads = 8, head_dim = 256, window_size = 1024, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "FLASHINFER" },
      { shape_profile = "gemma4_global_attention", native_num_heads = 16, native_num_key_value_heads = 2, head_dim = 512, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "FLASHINFER" },
      { shape_profile = "gemma4_31b_swa_attention", native_num_heads = 32, native_num_key_value_heads = 16, head_dim = 256, window_size = 1024, tp_sizes = [1, 2, 4, 8, 16, 32], attn_backend = "FLASHINFER" },
      { shape_profile = "gemma4_31b_global_attention", native_num_heads = 32, native_num_key_value_heads = 4, head_dim = 512, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32], attn_backend = "FLASHINFER" },
      { shape_profile = "gpt_oss_attention", native_num_heads = 64, native_num_key_value_heads = 8, head_dim = 64, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32, 64], attn_backend = "TRTLLM" },
      { shape_profile = "gpt_oss_attention", native_num_heads = 64, native_num_key_value_heads = 8, head_dim = 64, window_size = 128, tp_sizes = [1, 2, 4, 8, 16, 32, 64], attn_backend = "TRTLLM" },
      { shape_profile = "kimi_k3_dspark_draft_attention", native_num_heads = 64, native_num_key_value_heads = 16, head_dim = 64, window_size = 0, tp_sizes = [1, 2, 4, 8], attn_backend = "TRTLLM" },
      { shape_profile = "kimi_k3_mla_as_attention", native_num_heads = 96, native_num_key_value_heads = 96, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8], attn_backend = "TRTLLM" },
      { shape_profile = "llama4_attention", native_num_heads = 40, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8], attn_backend = "TRTLLM" },
      { shape_profile = "llama4_attention", native_num_heads = 40, native_num_key_value_heads = 8, head_dim = 128, window_size = 8192, tp_sizes = [1, 2, 4, 8], attn_backend = "TRTLLM" },
      { shape_profile = "mimo_7b_attention", native_num_heads = 32, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32], attn_backend = "TRTLLM" },
      { shape_profile = "mimo_v2_global_attention", native_num_heads = 64, native_num_key_value_heads = 4, head_dim = 192, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32, 64], attn_backend = "TRTLLM" },
      { shape_profile = "mimo_v2_swa_attention", native_num_heads = 64, native_num_key_value_heads = 8, head_dim = 192, window_size = 128, tp_sizes = [1, 2, 4, 8, 16, 32, 64], attn_backend = "TRTLLM" },
      { shape_profile = "minimax_m2_attention", native_num_heads = 48, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_small_attention", native_num_heads = 16, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_8b_attention", native_num_heads = 32, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_32b_attention", native_num_heads = 64, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32, 64], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_moe_30b_attention", native_num_heads = 32, native_num_key_value_heads = 4, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_moe_235b_attention", native_num_heads = 64, native_num_key_value_heads = 4, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32, 64], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_coder_attention", native_num_heads = 96, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_vl_2b_attention", native_num_heads = 16, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_vl_4b_8b_attention", native_num_heads = 32, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_vl_32b_attention", native_num_heads = 64, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_vl_moe_30b_attention", native_num_heads = 32, native_num_key_value_heads = 4, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "TRTLLM" },
      { shape_profile = "qwen3_vl_moe_235b_attention", native_num_heads = 64, native_num_key_value_heads = 4, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "TRTLLM" },
      { shape_profile = "qwen35_08b_2b_attention", native_num_heads = 8, native_num_key_value_heads = 2, head_dim = 256, window_size = 0, tp_sizes = [1, 2, 4, 8], attn_backend = "TRTLLM" },
      { shape_profile = "qwen35_4b_9b_attention", native_num_heads = 16, native_num_key_value_heads = 4, head_dim = 256, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "TRTLLM" },
      { shape_profile = "qwen35_27b_attention", native_num_heads = 24, native_num_key_value_heads = 4, head_dim = 256, window_size = 0, tp_sizes = [1, 2, 4, 8], attn_backend = "TRTLLM" },
      { shape_profile = "qwen35_35b_attention", native_num_heads = 16, native_num_key_value_heads = 2, head_dim = 256, window_size = 0, tp_sizes = [1, 2, 4, 8, 16], attn_backend = "TRTLLM" },
      { shape_profile = "qwen35_122b_attention", native_num_heads = 32, native_num_key_value_heads = 2, head_dim = 256, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32], attn_backend = "TRTLLM" },
      { shape_profile = "qwen35_397b_attention", native_num_heads = 32, native_num_key_value_heads = 2, head_dim = 256, window_size = 0, tp_sizes = [1, 2, 4, 8, 16, 32], attn_backend = "TRTLLM" },
      { shape_profile = "step3p7_global_attention", native_num_heads = 64, native_num_key_value_heads = 8, head_dim = 128, window_size = 0, tp_sizes = [1, 2, 4, 8], attn_backend = "TRTLLM" },
      { shape_profile = "step3p7_swa_attention", native_num_heads = 96, native_num_key_value_heads = 8, head_dim = 128, window_size = 512, tp_sizes = [1, 2, 4, 8], attn_backend = "TRTLLM" },
    ]
  }
  axis "tp_size" {
    values = [1, 2, 4, 8, 16, 32, 64]
  }
  derive "num_heads" {
    value = floor(native_num_heads / tp_size)
  }
  derive "num_key_value_heads" {
    value = ceil_div(native_num_key_value_heads, tp_size)
  }
  filter "tp_declared" {
    keep   = contains(tp_sizes, tp_size)
    reason = "the model does not run with this tensor parallel size"
  }
  filter "heads_divide" {
    keep   = (native_num_heads % tp_size) == 0
    reason = "heads must divide by the tensor parallel size"
  }
  filter "kv_divides" {
    keep   = (num_key_value_heads <= num_heads) && ((num_heads % num_key_value_heads) == 0)
    reason = "query heads must divide into key-value heads"
  }
}
rows "precision" {
  values = [
    { kv_cache_dtype = "bfloat16", attn_dtype = "bfloat16", min_sm = 0, max_sm = 9999 },
    { kv_cache_dtype = "fp8", attn_dtype = "bfloat16", min_sm = 87, max_sm = 9999 },
    { kv_cache_dtype = "fp8", attn_dtype = "fp8", min_sm = 87, max_sm = 9999 },
  ]
}
axis "isl" {
  values = [1, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288, 16384, 262144]
}
axis "batch_size" {
  values = [1, 2, 4, 8, 16, 32, 64, 128, 256]
}
filter "sm_gate" {
  keep   = (system.h200_sxm.sm_version >= min_sm) && (system.h200_sxm.sm_version <= max_sm)
  reason = "the GPU has no such kernel"
}
filter "mha_tokens" {
  keep   = (num_key_value_heads != num_heads) || (((batch_size * isl) <= 65536) && (batch_size <= 128))
  reason = "too many tokens for attention without shared heads"
}
filter "gqa_tokens" {
  keep   = (num_key_value_heads == num_heads) || ((batch_size * isl) <= 131072)
  reason = "too many tokens"
}
filter "kv_elements" {
  keep   = ((((batch_size * isl) * num_key_value_heads) * head_dim) * 2) < 2147483647
  reason = "the key-value cache is indexed with 32 bits"
}
filter "gqa_ratio_sm100" {
  keep   = (system.h200_sxm.sm_version < 100) || (attn_backend != "TRTLLM") || (floor(num_heads / num_key_value_heads) < 32) || ((floor(num_heads / num_key_value_heads) % 32) == 0)
  reason = "no such kernel on SM100"
}
filter "fp8_attention_sm120" {
  keep   = (system.h200_sxm.sm_version < 120) || (attn_dtype != "fp8") || (!(((head_dim == 128) && (num_heads == 96) && (num_key_value_heads == 96) && ((batch_size * isl) >= 65536)) || ((head_dim == 256) && (((num_heads == num_key_value_heads) && (num_heads == 96) && ((batch_size * isl) >= 32768)) || ((num_heads == num_key_value_heads) && (num_heads == 64) && ((batch_size * isl) >= 49152)) || ((num_heads == num_key_value_heads) && (num_heads == 48) && ((batch_size * isl) >= 65536)) || ((num_heads == 96) && (contains([1, 4], num_key_value_heads)) && ((batch_size * isl) >= 98304)) || ((num_heads == 96) && (num_key_value_heads == 8) && ((batch_size * isl) >= 81920)) || ((num_heads == 64) && (contains([1, 2, 4, 8], num_key_value_heads)) && ((batch_size * isl) >= 131072)) || ((num_heads == 48) && (num_key_value_heads == 8) && ((batch_size * isl) >= 131072))))))
  reason = "fails on SM120"
}
distinct {
  by     = ["num_heads", "num_key_value_heads", "head_dim", "window_size", "batch_size", "isl", "kv_cache_dtype", "attn_dtype", "attn_backend"]
  prefer = "first"
}
