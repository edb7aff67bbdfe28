# Sparse attention with an indexer (DeepSeek-V3.2, GLM-5). A task builds the module once for a model, a tensor-parallel
# size and a batch size, and walks all lengths that fit the cache. Models that share the index between layers are
# measured a second time without it.

locals {
  # Of the checkpoints of one architecture and format the one with the longest context is built: it covers the others.
  dsa_models = [
    for r in var.selection.models.dsa : {
      model            = r.model
      gemm_type        = r.gemm_type
      native_num_heads = r.num_heads
      max_position     = r.max_position
      shares_index     = r.shares_index
      selected         = anytrue([for q in var.selection.models.dsa : q.selected if q.architecture == r.architecture && q.gemm_type == r.gemm_type])
    } if r.max_position == max([for q in var.selection.models.dsa : q.max_position if q.architecture == r.architecture && q.gemm_type == r.gemm_type]...)
  ]

  dsa_columns = ["num_heads", "tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model", "dsa_prefill_backend"]

  dsa_precisions = [
    { mla_dtype = "bfloat16", kv_cache_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", min_sm = 90, max_sm = 999 },
  ]

  module_tp = [for t in [1, 2, 4, 8] : t if contains(var.selection.tp_sizes, t)]

  # Heads for which SGLang has sparse kernels.
  sparse_heads = [128, 64, 32, 16, 8]

  module_lengths = concat([1], powers(2, 2, 14))

  # Cached prefixes, and contexts that models end at.
  prefixes = [
    0, 1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10000, 10240, 12288, 16384,
    32768, 65536, 131072, 262144, 524288, 1000000, 1048575,
  ]
  contexts = [163840, 202752, 1048576]

  decode_lengths      = concat([1], powers(2, 2, 17))
  long_decode_lengths = distinct(concat([for p in local.prefixes : p if p > 0], [for c in local.contexts : c - 1]))
}

part "module_heads" {
  description = "heads of a model on the ranks of a node"
  include     = [local.parts.chosen]
  axis "tp_size" { values = local.module_tp }
  derive "num_heads" { value = native_num_heads / tp_size }
}

part "sparse_heads" {
  include = [part.module_heads, local.parts.sm_gate]

  filter "heads_supported" {
    keep   = contains(local.sparse_heads, num_heads)
    reason = "SGLang's sparse kernels take 8, 16, 32, 64 or 128 heads on a rank"
  }
}

part "dsa" {
  include = [part.sparse_heads, local.parts.sm_90]
  rows "model" { values = local.dsa_models }
  rows "precision" { values = local.dsa_precisions }
  derive "dsa_prefill_backend" { value = kv_cache_dtype != "fp8" ? null : local.sm >= 100 ? "trtllm" : "flashmla_kv" }
}

part "prefixes" {
  description = "new tokens behind a cached prefix"
  axis "step" { values = local.prefixes }
  axis "isl" { values = local.module_lengths }
}

part "full_context" {
  description = "new tokens at the end of a model's context"
  axis "cover" { values = local.contexts }
  axis "isl" { values = local.module_lengths }
  derive "step" { value = cover - isl }

  filter "prefix_positive" {
    keep   = step > 0
    reason = "the new tokens alone fill the context"
  }
}

part "long_small_batches" {
  filter "long_small_batches" {
    keep   = batch_size * isl <= 131072 && (isl < 8192 || batch_size <= 8)
    reason = "long prompts come in batches of at most 8"
  }
}

part "model_context" {
  filter "context" {
    keep   = step + isl <= max_position
    reason = "longer than the model's context"
  }
}

part "dsa_context" {
  include = [part.dsa, local.parts.decode_batches]

  sweep "lengths" {
    columns = ["isl", "step"]
    include = [part.long_small_batches, part.model_context]

    case_set "prefixes" { include = [part.prefixes] }

    case_set "full_context" { include = [part.full_context] }

    filter "prefill" {
      keep   = isl > 1 && batch_size * isl <= local.prefill_chunk
      reason = "one token is decode; more than ${local.prefill_chunk} tokens are several chunks of prefill"
    }

    filter "cache" {
      keep   = batch_size * (isl + step) <= 33554432
      reason = "more than 2^25 cached tokens"
    }

    distinct {}
  }
}

part "dsa_generation" {
  include = [part.dsa]

  sweep "lengths" {
    columns = ["batch_size", "step"]

    case_set "batches" {
      include = [local.parts.decode_batches]

      axis "step" { values = local.decode_lengths }

      filter "cache" {
        keep   = batch_size * step <= 262144
        reason = "more than 2^18 cached tokens: the token pool of the benchmark ends there"
      }
    }

    case_set "long" {
      axis "batch_size" { values = [1] }
      axis "step" { values = local.long_decode_lengths }

      filter "context" {
        keep   = step <= max_position - 1
        reason = "longer than the model's context"
      }
    }

    distinct {}
  }
}

grid "dsa_context_module" {
  enabled     = var.selection.plans.dsa_context_module
  description = "sparse attention with an indexer, in prefill"
  perf_table  = "dsa_context_module_perf"
  columns     = concat(["batch_size"], local.dsa_columns)
  include     = [part.dsa_context]
}

grid "dsa_generation_module" {
  enabled     = var.selection.plans.dsa_generation_module
  description = "sparse attention with an indexer, in decode"
  perf_table  = "dsa_generation_module_perf"
  columns     = local.dsa_columns
  constants   = { isl = 1 }
  include     = [part.dsa_generation]
}

# The layers that take the index of an earlier one. Their rows go to the same tables, under an op_name of their own.
part "shared_index" {
  filter "index_shared" {
    keep   = shares_index
    reason = "the model computes an index in every layer, so there is nothing to skip"
  }
}

grid "dsa_context_module_skip_indexer" {
  enabled     = var.selection.plans.dsa_context_module_skip_indexer
  description = "the same in layers that take the index of another, in prefill"
  perf_table  = "dsa_context_module_perf"
  columns     = concat(["batch_size"], local.dsa_columns)
  include     = [part.dsa_context, part.shared_index]
}

grid "dsa_generation_module_skip_indexer" {
  enabled     = var.selection.plans.dsa_generation_module_skip_indexer
  description = "the same in layers that take the index of another, in decode"
  perf_table  = "dsa_generation_module_perf"
  columns     = local.dsa_columns
  constants   = { isl = 1 }
  include     = [part.dsa_generation, part.shared_index]
}
