# Mamba-2 layers.

grid "mamba2" {
  enabled     = var.selection.plans.mamba2
  description = "Mamba-2 layers"
  perf_table  = "mamba2_perf"
  columns     = ["phase", "d_model", "d_state", "d_conv", "nheads", "head_dim", "n_groups", "chunk_size", "model_name"]
  include     = [module.common.parts.chosen]

  rows "model" {
    values = [for r in concat(local.generic_mamba2, var.selection.models.mamba2) : {
      model_name = r.model_name
      d_model    = r.d_model
      d_state    = r.d_state
      d_conv     = r.d_conv
      nheads     = r.nheads
      head_dim   = r.head_dim
      n_groups   = r.n_groups
      chunk_size = r.chunk_size
      selected   = r.selected
    }]
  }

  axis "phase" { values = ["context", "generation"] }

  sweep "points" {
    columns = ["batch_size", "seq_len"]
    include = [module.common.parts.layer_points]
  }
}

locals {
  # Two shapes of the Mamba-2 paper's sizes, for models without rows of their own.
  generic_mamba2 = [
    for r in [
      { model_name = "MAMBA2_GENERIC_4K", d_model = 8192, d_state = 128, d_conv = 4, nheads = 64, head_dim = 64, n_groups = 8, chunk_size = 256 },
      { model_name = "MAMBA2_GENERIC_1K", d_model = 1024, d_state = 64, d_conv = 4, nheads = 16, head_dim = 64, n_groups = 4, chunk_size = 128 },
    ] : merge(r, { selected = var.selection.everything })
  ]
}
