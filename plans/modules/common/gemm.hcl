# Linear layers, and the dynamic FP8 quantisation of their activations.

locals {
  # Runs of chosen models take the exact widths of their layers. Models whose layers are not on file are covered by the
  # base grid.
  gemm_projections = [for r in local.models.projection_widths : r if r.selected && !var.selection.everything]
  gemm_bfloat16    = [for r in local.models.bfloat16_widths : r if r.selected && !var.selection.everything]
  gemm_model_widths = [
    for r in concat(local.models.gate_widths, local.gemm_projections, local.gemm_bfloat16) :
    { n = r.n, k = r.k, tp_size = r.tp_size, selected = r.selected, bfloat16 = try(r.bfloat16, false) }
  ]

  chosen_widths = distinct(concat(
    [for w in module.shapes.gemm_widths : w if var.selection.base_products],
    [for r in local.gemm_projections : r.k if contains(var.selection.tp_sizes, r.tp_size)],
  ))
  activation_widths = sort(distinct(concat(module.shapes.gemm_widths, local.chosen_widths)))
}

grid "gemm" {
  enabled     = local.plans.gemm
  description = "linear layers: m tokens through a weight of n x k"
  perf_table  = "gemm_perf"
  columns     = ["gemm_dtype", "m", "n", "k"]
  include     = [local.parts.sm_gate, try(var.limits.blocks, false) ? part.blocks : null, try(var.limits.gemm, null)]

  # Largest weights first: what does not fit shows at once. A weight depends on n, k and the format, so it is built
  # once for all m.
  loop_order = ["n", "k", "width", "format"]

  case_set "base" {
    description = "products of the base widths"

    axis "n" { values = reverse(module.shapes.gemm_widths) } # output features
    axis "k" { values = reverse(module.shapes.gemm_widths) } # input features

    filter "largest_square" {
      keep   = n * k != 4294967296
      reason = "65536 x 65536 is no model's layer, and its weight alone has 2^32 elements"
    }

    filter "base_grid" {
      keep   = var.selection.base_products
      reason = local.reasons.base
    }
  }

  case_set "model_widths" {
    description = "products of the layers of the chosen models"
    include     = [local.parts.chosen]

    rows "width" { values = local.gemm_model_widths }

    filter "tp_chosen" {
      keep   = tp_size == 0 || contains(var.selection.tp_sizes, tp_size)
      reason = local.reasons.tp
    }

    filter "bfloat16" {
      keep   = !bfloat16 || gemm_dtype == "bfloat16"
      reason = "the head of a model and the router of its experts stay in bfloat16"
    }

    filter "logits" {
      keep   = !bfloat16 || m * n < 2147483648
      reason = "the head runs for one token of each sequence: no step has 2^31 logits"
    }
  }

  axis "m" { values = reverse(module.shapes.gemm_tokens) } # tokens
  rows "format" { values = var.formats.gemm }
  distinct {}
}

# One case fills two tables: computescale_perf (what the search for the scale adds) and scale_matrix_perf (the
# scaling itself).
grid "compute_scale" {
  enabled     = local.plans.compute_scale
  description = "FP8 quantisation of activations"
  perf_table  = "computescale_perf"
  constants   = { quant_dtype = "fp8" }

  axis "m" { values = reverse(module.shapes.gemm_tokens) } # tokens
  axis "k" { values = reverse(local.activation_widths) }   # width of the activations

  filter "fp8" {
    keep   = local.sm >= 89
    reason = "SM ${local.sm} has no FP8: the conversion starts at SM 89"
  }

  filter "chosen" {
    keep   = var.selection.everything || contains(local.chosen_widths, k)
    reason = local.reasons.selected
  }
}

# For frameworks that do not pad block-scaled weights themselves.
part "blocks" {
  filter "block_min_128" {
    keep   = !contains(["fp8_block", "nvfp4"], gemm_dtype) || (n >= 128 && k >= 128)
    reason = "block-scaled formats have one scale per 128 x 128 block: a narrower weight has none"
  }
}
