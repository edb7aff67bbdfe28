# Mixture of experts: what the grids of all frameworks include. A case contains the routing of the model.

part "moe" {
  description = "how experts spread over ranks, and tokens over experts"
  include     = [local.parts.chosen]

  rows "model" { values = [for r in local.models.moe : merge(r.router, r)] }

  rows "format" { values = var.formats.moe }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = "the framework has no expert kernel for the format on SM ${local.sm}"
  }

  axis "distribution" { values = ["balanced", "power_law_1.01", "power_law_1.2"] } # how tokens spread over the experts
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
