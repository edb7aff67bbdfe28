op = "msa_context_module"
perf_table = "msa_context_module_perf"
columns = ["batch_size", "num_heads", "tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]
case_set "base" {
  rows "model" {
    values = [
      { model = "MiniMaxAI/MiniMax-M3", native_num_heads = 64, max_position = 1048576 },
    ]
  }
  rows "precision" {
    values = [
      { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "bfloat16", min_sm = 0, max_sm = 9999 },
      { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "bfloat16", min_sm = 90, max_sm = 9999 },
    ]
  }
  axis "tp_size" {
    values = [1, 2, 4, 8]
  }
  axis "batch_size" {
    values = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
  }
  derive "num_heads" {
    value = floor(native_num_heads / tp_size)
  }
  filter "sm_gate" {
    keep   = (system.h200_sxm.sm_version >= min_sm) && (system.h200_sxm.sm_version <= max_sm)
    reason = "the GPU has no such kernel"
  }
  filter "heads_divide" {
    keep   = (native_num_heads % tp_size) == 0
    reason = "heads must divide by the tensor parallel size"
  }
  filter "head_supported" {
    keep   = contains([128, 64, 32, 16, 8], num_heads)
    reason = "no kernel for so many heads"
  }
}
sweep "points" {
  columns = ["isl", "step"]
  case_set "prefix_list" {
    axis "isl" {
      values = [1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
    }
    axis "step" {
      values = [0, 1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10000, 10240, 12288, 16384, 32768, 65536, 131072, 262144, 524288, 1000000, 1048575]
    }
  }
  case_set "ceiling" {
    axis "isl" {
      values = [1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
    }
    derive "step" {
      value = max_position - isl
    }
    filter "positive" {
      keep   = step > 0
      reason = "the prompt must leave room for a prefix"
    }
  }
  filter "tokens" {
    keep   = (batch_size * isl) <= 131072
    reason = "too many tokens"
  }
  filter "large_seq" {
    keep   = (isl < 8192) || (batch_size <= 8)
    reason = "long prompts run in small batches only"
  }
  filter "position" {
    keep   = (step + isl) <= max_position
    reason = "beyond the model context"
  }
  filter "memory" {
    keep   = ((batch_size * (ceil_div(isl + step, 128) * 128)) * ((((2 * max(1, floor(num_heads / 16))) * 128) * ((kv_cache_dtype == "fp8" ? 1 : 2))) + (min(4, num_heads) * 256))) <= (system.h200_sxm.mem * 9 / 10)
    reason = "the key-value cache does not fit"
  }
}
