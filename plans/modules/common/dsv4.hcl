# DeepSeek-V4 attention as TensorRT-LLM and vLLM run it: compressed sparse attention (csa, four tokens to an entry) and
# heavily compressed attention (hca, 128 tokens to an entry), both with an FP8 cache and block-scaled projections.

locals {
  dsv4_models = [for r in local.models.dsv4 : {
    model            = r.model
    native_num_heads = r.num_heads
    selected         = r.selected
  }]

  dsv4_tp = [for t in [1, 2, 4, 8] : t if contains(var.selection.tp_sizes, t)]

  dsv4_lengths = concat([1, 4, 8, 16, 32, 64, 128, 256, 512, 1024], module.shapes.long_lengths)

  # The collectors of both backends build caches up to this length.
  dsv4_context = 65536
  dsv4_longest = "longer than 65536 tokens: the benchmark builds no longer cache"
  dsv4_cache   = "more than 2^20 cached tokens over the batch: the cache pool of the benchmark ends there"
}

part "dsv4" {
  include = [local.parts.chosen]
  rows "model" { values = local.dsv4_models }
  axis "tp_size" { values = local.dsv4_tp }
  axis "batch_size" { values = module.shapes.decode_batches }
  derive "num_heads" { value = native_num_heads / tp_size }
  derive "mla_dtype" { value = "bfloat16" }
  derive "kv_cache_dtype" { value = "fp8" }
  derive "gemm_type" { value = "fp8_block" }
}

part "dsv4_context" {
  include = [part.dsv4]

  case_set "prefixes" {
    axis "step" { values = [0, 128, 2048, 4096] } # cached prefix
  }

  # The longest prefix that still fits the context, whatever is new.
  case_set "full_context" {
    derive "step" { value = local.dsv4_context - isl }

    filter "prefix_not_negative" {
      keep   = step >= 0
      reason = "the new tokens alone fill the context"
    }
  }

  axis "isl" { values = local.dsv4_lengths } # new tokens per sequence

  filter "longest" {
    keep   = isl <= local.dsv4_context
    reason = local.dsv4_longest
  }

  filter "prefix_fits" {
    keep   = step + isl <= local.dsv4_context
    reason = local.dsv4_longest
  }

  filter "query_tokens" {
    keep   = batch_size * isl <= 262144
    reason = "more than 2^18 new tokens in one prefill: schedulers chunk it before"
  }

  filter "kv_tokens" {
    keep   = batch_size * (step + isl) <= 1048576
    reason = local.dsv4_cache
  }
}

part "dsv4_generation" {
  include = [part.dsv4]

  axis "step" { values = local.dsv4_lengths } # tokens in the cache

  filter "longest" {
    keep   = step <= local.dsv4_context
    reason = local.dsv4_longest
  }

  filter "kv_tokens" {
    keep   = batch_size * step <= 1048576
    reason = local.dsv4_cache
  }

  filter "batch_ladder" {
    keep   = (step < 65536 || batch_size <= 8) && (step < 32768 || batch_size <= 16) && (step < 8192 || batch_size <= 64)
    reason = "long caches are served in small batches: 64 sequences from 8192 tokens, 16 from 32768, 8 from 65536"
  }
}

grid "dsv4_csa_context_module" {
  enabled     = local.plans.dsv4_csa_context_module
  description = "DeepSeek-V4's compressed sparse attention in prefill"
  perf_table  = "dsv4_csa_context_module_perf"
  columns     = concat(["batch_size", "isl", "step", "tp_size"], local.module_columns)
  constants   = { compress_ratio = 4 }
  loop_order  = ["model", "tp_size", "batch_size", "isl"]
  include     = [part.dsv4_context]
  distinct { by = ["model", "tp_size", "batch_size", "isl", "step"] }
}

grid "dsv4_hca_context_module" {
  enabled     = local.plans.dsv4_hca_context_module
  description = "DeepSeek-V4's heavily compressed attention in prefill"
  perf_table  = "dsv4_hca_context_module_perf"
  columns     = concat(["batch_size", "isl", "step", "tp_size"], local.module_columns)
  constants   = { compress_ratio = 128 }
  loop_order  = ["model", "tp_size", "batch_size", "isl"]
  include     = [part.dsv4_context]
  distinct { by = ["model", "tp_size", "batch_size", "isl", "step"] }
}

grid "dsv4_csa_generation_module" {
  enabled     = local.plans.dsv4_csa_generation_module
  description = "DeepSeek-V4's compressed sparse attention in decode"
  perf_table  = "dsv4_csa_generation_module_perf"
  columns     = concat(["batch_size", "step", "tp_size"], local.module_columns)
  constants   = { compress_ratio = 4, isl = 1 }
  include     = [part.dsv4_generation]
}

grid "dsv4_hca_generation_module" {
  enabled     = local.plans.dsv4_hca_generation_module
  description = "DeepSeek-V4's heavily compressed attention in decode"
  perf_table  = "dsv4_hca_generation_module_perf"
  columns     = concat(["batch_size", "step", "tp_size"], local.module_columns)
  constants   = { compress_ratio = 128, isl = 1 }
  include     = [part.dsv4_generation]
}
