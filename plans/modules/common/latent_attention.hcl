# Multi-head latent attention without its projections, and the two batched products that absorb them in decode.

locals {
  chosen_latent_heads = distinct(flatten([for r in local.models.mla : [
    for t in var.selection.tp_sizes : r.num_heads / t if r.selected && r.num_heads % t == 0
  ]]))
}

part "latent" {
  include = [local.parts.sm_gate, local.parts.chosen]

  axis "tp_size" { values = var.selection.tp_sizes }
  rows "model" { values = [for r in local.models.mla : { native_num_heads = r.num_heads, selected = r.selected }] }
  rows "precision" { values = var.formats.latent }
  derive "num_heads" { value = floor(native_num_heads / tp_size) }

  filter "heads_divide" {
    keep   = native_num_heads % tp_size == 0
    reason = "the heads do not divide over so many ranks"
  }
}

grid "mla_context" {
  enabled     = local.plans.mla_context
  description = "latent attention in prefill, without its projections"
  perf_table  = "context_mla_perf"
  columns     = ["batch_size", "isl", "num_heads", "tp_size", "native_num_heads", "kv_cache_dtype"]
  constants   = { mla_dtype = "bfloat16", step = 0 }
  include     = [part.latent]

  axis "isl" { values = concat(module.shapes.context_lengths, [32768]) } # new tokens per sequence
  axis "batch_size" { values = module.shapes.context_batches }

  filter "tokens" {
    keep   = batch_size * isl <= 65536
    reason = "more than 65536 tokens in one prefill: schedulers chunk it before"
  }

  # The kernel sees local heads only: of several ways to come to a number of
  # them, only the one with the fewest ranks is measured.
  distinct {
    by     = ["kv_cache_dtype", "num_heads", "batch_size", "isl"]
    prefer = "min"
    of     = tp_size
  }
}

grid "mla_generation" {
  enabled     = local.plans.mla_generation
  description = "latent attention in decode, without its projections"
  perf_table  = "generation_mla_perf"
  columns     = ["batch_size", "step", "num_heads", "tp_size", "native_num_heads", "kv_cache_dtype"]
  constants   = { mla_dtype = "bfloat16", isl = 1 }
  include     = [part.latent]

  axis "target_seq" { values = module.shapes.cache_lengths } # tokens in the cache after the step
  axis "batch_size" { values = module.shapes.decode_batches }
  derive "step" { value = target_seq - 1 } # tokens in the cache before the decoded one

  filter "tokens" {
    keep   = batch_size * target_seq <= 16777216
    reason = "more than 2^24 cached tokens: no node serves so many"
  }

  distinct {
    by     = ["kv_cache_dtype", "num_heads", "batch_size", "step"]
    prefer = "min"
    of     = tp_size
  }
}

part "absorbed" {
  include = [local.parts.sm_gate]

  rows "precision" { values = var.formats.bmm }
  axis "num_heads" { values = [128, 96, 64, 48, 32, 24, 16, 12, 8, 4, 2, 1] }

  filter "chosen" {
    keep   = var.selection.everything && local.any_tp || contains(local.chosen_latent_heads, num_heads)
    reason = local.reasons.selected
  }
}

grid "mla_bmm_gen_pre" {
  enabled     = local.plans.mla_bmm_gen_pre
  description = "query heads into the latent space"
  perf_table  = "mla_bmm_perf"
  columns     = ["num_tokens", "num_heads", "bmm_dtype"]
  constants   = { op_name = "mla_gen_pre" }
  loop_order  = ["num_tokens", "num_heads"]
  include     = [part.absorbed]
  axis "num_tokens" { values = module.shapes.bmm_tokens }
}

grid "mla_bmm_gen_post" {
  enabled     = local.plans.mla_bmm_gen_post
  description = "attention output back out of the latent space"
  perf_table  = "mla_bmm_perf"
  columns     = ["num_tokens", "num_heads", "bmm_dtype"]
  constants   = { op_name = "mla_gen_post" }
  loop_order  = ["num_tokens", "num_heads"]
  include     = [part.absorbed]
  axis "num_tokens" { values = concat(module.shapes.moe_tokens, [20480]) }
}
