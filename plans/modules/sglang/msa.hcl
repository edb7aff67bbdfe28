# MiniMax sparse attention: a task walks all lengths whose cache fits.

locals {
  msa_models = [for r in var.selection.models.msa : {
    model            = r.model
    native_num_heads = r.num_heads
    max_position     = r.max_position
    selected         = r.selected
  }]

  msa_precisions = [
    { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", gemm_type = "bfloat16", min_sm = 0, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "bfloat16", min_sm = 90, max_sm = 999 },
  ]
}

part "msa" {
  include = [part.sparse_heads]
  rows "model" { values = local.msa_models }
  rows "precision" { values = local.msa_precisions }
}

# Pages of 128 tokens: keys and values of the cache heads on this rank, and the indexer's keys.
part "msa_memory" {
  filter "memory" {
    keep   = batch_size * ceil_div(isl + step, 128) * 128 * (2 * max(1, floor(num_heads / 16)) * 128 * (kv_cache_dtype == "fp8" ? 1 : 2) + min(4, num_heads) * 256) <= local.cache_budget
    reason = "the cache does not fit ${floor(local.cache_budget / 1e9)} GB, nine tenths of the device"
  }
}

grid "msa_context_module" {
  enabled     = var.selection.plans.msa_context_module
  description = "MiniMax sparse attention in prefill"
  perf_table  = "msa_context_module_perf"
  columns     = ["batch_size", "num_heads", "tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]
  constants   = { architecture = "MiniMaxM3ForCausalLM" }
  include     = [part.msa, local.parts.decode_batches]

  sweep "lengths" {
    columns = ["isl", "step"]
    include = [part.long_small_batches, part.model_context, part.msa_memory]

    case_set "prefixes" {
      axis "isl" { values = local.module_lengths }
      axis "step" { values = local.prefixes }
    }

    case_set "full_context" {
      axis "isl" { values = local.module_lengths }
      derive "step" { value = max_position - isl }
    }

    distinct {}
  }
}

grid "msa_generation_module" {
  enabled     = var.selection.plans.msa_generation_module
  description = "MiniMax sparse attention in decode"
  perf_table  = "msa_generation_module_perf"
  columns     = ["num_heads", "tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]
  constants   = { architecture = "MiniMaxM3ForCausalLM", isl = 1 }
  include     = [part.msa]

  sweep "lengths" {
    columns = ["batch_size", "step"]
    include = [part.msa_memory]
    derive "isl" { value = 1 }

    case_set "batches" {
      include = [local.parts.decode_batches]

      axis "step" { values = local.decode_lengths }

      filter "cache" {
        keep   = batch_size * step <= 33554432 && step < max_position
        reason = "more than 2^25 cached tokens"
      }
    }

    case_set "full_context" {
      axis "batch_size" { values = [1] }
      derive "step" { value = max_position - 1 }
    }

    distinct {}
  }
}
