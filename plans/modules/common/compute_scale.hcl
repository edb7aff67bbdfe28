# Dynamic FP8 quantisation of activations. One case fills two tables:
# computescale_perf (what the search for the scale adds) and scale_matrix_perf
# (the scaling itself).

grid "compute_scale" {
  enabled     = local.plans.compute_scale
  description = "FP8 quantisation of activations"
  op          = "compute_scale"
  perf_table  = "computescale_perf"
  constants   = { quant_dtype = "fp8" }

  axis "m" {
    values      = reverse(module.shapes.gemm_tokens)
    description = "tokens"
  }

  axis "k" {
    values      = reverse(module.shapes.gemm_widths)
    description = "width of the activations"
  }

  filter "fp8" {
    keep   = local.sm >= 89
    reason = "SM ${local.sm} has no FP8: the conversion starts at SM 89"
  }

  filter "chosen" {
    keep   = var.selection.everything || contains(local.chosen_widths, k)
    reason = local.reasons.selected
  }
}

locals {
  # Inputs of the chosen models' own products. A model without known
  # projections keeps the whole grid.
  chosen_widths = length(local.gemm_projections) > 0 ? distinct([for r in local.gemm_projections : r.k]) : module.shapes.gemm_widths
}
