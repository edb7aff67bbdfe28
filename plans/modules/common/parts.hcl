# Parts of the grids that every backend declares itself: what differs between
# them are formats, heads and a few limits.

locals {
  # Runs of chosen models take the exact widths of their layers; a model whose
  # layers are not on file is covered by the base grid.
  gemm_projections = [for r in local.models.projection_widths : r if r.selected]
  gemm_base        = var.selection.everything || length(local.gemm_projections) == 0
  gemm_model_widths = [
    for r in concat(local.models.gate_widths, var.selection.everything ? [] : local.gemm_projections) :
    { n = r.n, k = r.k, tp_size = r.tp_size, selected = r.selected }
  ]
}

part "gemm_widths" {
  description = "weights of n x k, and the tokens that go through them"

  case_set "base" {
    axis "n" {
      values      = reverse(module.shapes.gemm_widths)
      description = "output features"
    }

    axis "k" {
      values      = reverse(module.shapes.gemm_widths)
      description = "input features"
    }

    filter "largest_square" {
      keep   = n * k != 4294967296
      reason = "65536 x 65536 is no model's layer, and its weight alone has 2^32 elements"
    }

    filter "base_grid" {
      keep   = local.gemm_base
      reason = local.reasons.base
    }
  }

  case_set "model_widths" {
    include = [local.parts.chosen]

    rows "width" { values = local.gemm_model_widths }

    filter "tp_chosen" {
      keep   = tp_size == 0 || contains(var.selection.tp_sizes, tp_size)
      reason = local.reasons.tp
    }
  }

  axis "m" {
    values      = reverse(module.shapes.gemm_tokens)
    description = "tokens"
  }
}

part "grouped" {
  description = "an axis of query heads and one of key/value heads"

  filter "grouped" {
    keep   = num_key_value_heads < num_heads && num_heads % num_key_value_heads == 0
    reason = "not grouped-query attention: the key/value heads must be fewer than the query heads and divide them"
  }
}

part "attention_context" {
  include = [local.parts.sm_gate]

  axis "isl" {
    values      = reverse(module.shapes.context_lengths)
    description = "new tokens per sequence"
  }

  axis "batch_size" { values = reverse(module.shapes.context_batches) }

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
}

# A grid that includes this derives max_batch and max_batch_doubled: the largest
# batch at this length and at twice this length.
part "attention_generation" {
  include = [local.parts.sm_gate]

  axis "target_seq" {
    values      = module.shapes.cache_lengths
    description = "tokens in the cache after the step"
  }

  axis "batch_size" { values = powers(2, 0, 11) }

  derive "step" {
    value       = target_seq - 1
    description = "tokens in the cache before the decoded one"
  }

  filter "few_batches" {
    keep   = max_batch >= 8
    reason = "fewer than four batch sizes fit at this length: too few points to interpolate between"
  }

  filter "longest_of_large_batches" {
    keep   = batch_size < 256 || (target_seq < 131072 && max_batch_doubled >= max(batch_size, 8))
    reason = "from batch 256 on the longest length that fits is left out: it takes most of the time and serves nobody"
  }
}

part "moe" {
  description = "how experts spread over ranks, and tokens over experts"
  include     = [local.parts.chosen]

  axis "distribution" {
    values      = ["balanced", "power_law_1.01", "power_law_1.2"]
    description = "how tokens spread over the experts"
  }

  axis "moe_tp_size" { values = [for t in var.selection.tp_sizes : t if t <= 32] }
  axis "moe_ep_size" { values = module.shapes.ep_sizes }

  filter "dtype_allowed" {
    keep   = contains(allowed_dtypes, moe_dtype)
    reason = "the checkpoint is not run in this format: quantised ones only in their own"
  }

  filter "tp_limit" {
    keep   = moe_tp_size <= max_tp
    reason = "the model is not served with so many tensor-parallel ranks"
  }

  filter "experts_divide" {
    keep   = num_experts % moe_ep_size == 0
    reason = "the experts do not divide over the ranks"
  }

  filter "width_divides" {
    keep   = inter_size % moe_tp_size == 0
    reason = "the experts' width does not divide over the ranks"
  }
}

part "moe_256_gpus" {
  filter "gpus" {
    keep   = moe_tp_size * moe_ep_size <= 256
    reason = "more than 256 GPUs"
  }
}

part "hyper_connections" {
  description = "the widths of models with hyper-connections, and the tokens that go through them"
  include     = [local.parts.chosen]

  rows "model" {
    values = [for r in local.models.mhc : {
      hidden_size = r.hidden_size
      hc_mult     = r.hc_mult
      selected    = r.selected
    }]
  }

  axis "op" {
    values      = ["pre", "post"]
    description = "before or after the block; the table's op_name"
  }

  axis "num_tokens" { values = module.shapes.mhc_tokens }
}
