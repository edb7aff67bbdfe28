# Whole attention modules, projections included: latent attention (mla), sparse attention with an indexer (dsa) and
# MiniMax sparse attention (msa). Heads on a rank are an axis of their own; tensor parallelism is not part of the key.

locals {
  # One model per architecture: the table has no place for a second.
  mla_modules = [for r in slice(local.models.mla, 0, min(1, length(local.models.mla))) : {
    model        = r.model
    native_heads = distinct([for q in local.models.mla : q.num_heads if q.selected])
    selected     = anytrue([for q in local.models.mla : q.selected])
  }]

  dsa_modules = [
    for i, r in local.models.dsa : {
      model        = r.model
      native_heads = distinct([for q in local.models.dsa : q.num_heads if q.selected && q.architecture == r.architecture])
      selected     = anytrue([for q in local.models.dsa : q.selected if q.architecture == r.architecture])
    } if !contains([for q in slice(local.models.dsa, 0, i) : q.architecture], r.architecture)
  ]

  msa_modules = [for r in local.models.msa : { model = r.model, native_heads = [r.num_heads], selected = r.selected }]

  # By kind of module: caches and weights in all formats, on SM versions that have both. Attention multiplies in
  # bfloat16 if it has no format of its own.
  module_formats = { for kind, groups in var.formats : kind => flatten([for g in groups : [
    for weights, sm in g.weights : [for cache, first in g.cache : {
      mla_dtype = try(g.attention, "bfloat16"), kv_cache_dtype = cache, gemm_type = weights, min_sm = max(sm, first), max_sm = 999
    }]
  ]]) if can(groups[0].weights) }

  module_columns = ["num_heads", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]
  cache_limit    = "the cache does not fit ${floor(var.cache_budget / 1e9)} GB, nine tenths of the device"
}

part "module_heads" {
  include = [local.parts.sm_gate, local.parts.chosen]

  axis "num_heads" { values = coalesce(var.module_heads, reverse(powers(2, 0, 7))) }

  filter "tp_chosen" {
    keep   = local.any_tp || anytrue([for n in native_heads : contains(var.selection.tp, n / num_heads)])
    reason = local.reasons.tp
  }
}

part "module_context" {
  include = [part.module_heads]

  axis "batch_size" { values = module.shapes.context_batches }
  axis "isl" { values = concat(module.shapes.context_lengths, [32768]) } # new tokens per sequence

  filter "tokens" {
    keep   = batch_size * isl <= 131072
    reason = "more than 131072 new tokens in one prefill: schedulers chunk it before"
  }
}

part "module_generation" {
  include = [part.module_heads, local.parts.decode_batches]

  axis "step" { values = module.shapes.cache_lengths } # tokens in the cache

  filter "tokens" {
    keep   = batch_size * step <= 33554432
    reason = "more than 2^25 cached tokens: no node serves so many"
  }
}

# A latent entry has 512 + 64 values; the benchmark holds two caches.
part "latent_cache" {
  filter "memory" {
    keep   = 2 * batch_size * step * 576 * (kv_cache_dtype == "fp8" ? 1 : 2) <= var.cache_budget
    reason = local.cache_limit
  }
}

part "cached_prefix" {
  axis "step" { values = [0, 128] } # cached prefix
}

grid "mla_context_module" {
  enabled     = local.plans.mla_context_module
  description = "latent attention in prefill, with its projections"
  perf_table  = "mla_context_module_perf"
  columns     = concat(["batch_size", "isl"], local.module_columns)
  constants   = { tp_size = 1, step = 0 }
  include     = [part.module_context]
  rows "model" { values = local.mla_modules }
  rows "precision" { values = local.module_formats.mla_context }
}

grid "mla_generation_module" {
  enabled     = local.plans.mla_generation_module
  description = "latent attention in decode, with its projections"
  perf_table  = "mla_generation_module_perf"
  columns     = concat(["batch_size", "step"], local.module_columns)
  constants   = { tp_size = 1, isl = 1 }
  include     = [part.module_generation, part.latent_cache]
  rows "model" { values = local.mla_modules }
  rows "precision" { values = local.module_formats.mla_generation }
}

grid "dsa_context_module" {
  enabled     = local.plans.dsa_context_module
  description = "sparse attention with an indexer, in prefill"
  perf_table  = "dsa_context_module_perf"
  columns     = concat(["batch_size", "isl", "step"], local.module_columns)
  constants   = { tp_size = 1 }
  include     = [part.module_context, part.cached_prefix, local.parts.sm_90]
  rows "model" { values = local.dsa_modules }
  rows "precision" { values = local.module_formats.dsa }
}

grid "dsa_generation_module" {
  enabled     = local.plans.dsa_generation_module
  description = "sparse attention with an indexer, in decode"
  perf_table  = "dsa_generation_module_perf"
  columns     = concat(["batch_size", "step"], local.module_columns)
  constants   = { tp_size = 1, isl = 1 }
  include     = [part.module_generation, part.latent_cache, local.parts.sm_90]
  rows "model" { values = local.dsa_modules }
  rows "precision" { values = local.module_formats.dsa }
}

grid "msa_context_module" {
  enabled     = local.plans.msa_context_module
  description = "MiniMax sparse attention in prefill"
  perf_table  = "msa_context_module_perf"
  columns     = concat(["batch_size", "isl", "step"], local.module_columns)
  constants   = { tp_size = 1 }
  include     = [part.module_context, part.cached_prefix]
  rows "model" { values = local.msa_modules }
  rows "precision" { values = local.module_formats.msa }
}

grid "msa_generation_module" {
  enabled     = local.plans.msa_generation_module
  description = "MiniMax sparse attention in decode"
  perf_table  = "msa_generation_module_perf"
  columns     = concat(["batch_size", "step"], local.module_columns)
  constants   = { tp_size = 1, isl = 1 }
  include     = [part.module_generation]

  rows "model" { values = local.msa_modules }
  rows "precision" { values = local.module_formats.msa }

  # Keys and values of the cache heads on this rank, and the indexer's keys.
  filter "memory" {
    keep   = batch_size * step * (2 * max(1, floor(num_heads / 16)) * 128 * (kv_cache_dtype == "fp8" ? 1 : 2) + 256) <= var.cache_budget
    reason = local.cache_limit
  }
}
