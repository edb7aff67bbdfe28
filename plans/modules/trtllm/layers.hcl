# Mamba-2 layers and hyper-connections.

grid "mamba2" {
  enabled     = contains(var.selection.ops, "mamba2") && local.wants.mamba2
  description = "Mamba-2 layers"
  op          = "mamba2"
  perf_table  = "mamba2_perf"
  columns     = ["phase", "d_model", "d_state", "d_conv", "nheads", "head_dim", "n_groups", "chunk_size", "model_name"]
  include     = [local.parts.chosen]

  rows "model" {
    values = [for r in concat(local.generic_mamba2, local.models.mamba2) : {
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
    include = [local.parts.layer_points]
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

grid "mhc_module" {
  enabled     = contains(var.selection.ops, "mhc_module") && local.wants.mhc
  description = "hyper-connections before and after a block"
  op          = "mhc_module"
  perf_table  = "mhc_module_perf"
  columns     = ["op", "num_tokens", "hidden_size", "hc_mult"]
  constants   = { architecture = "DeepseekV4ForCausalLM", num_sites = 2, sinkhorn_iters = 20 }
  include     = [local.parts.hyper_connections]
}
