# Hyper-connections. One task walks all token counts.

grid "mhc_module" {
  enabled     = contains(var.selection.ops, "mhc_module") && local.wants.mhc
  description = "hyper-connections before and after a block"
  op          = "mhc_module"
  perf_table  = "mhc_module_perf"
  columns     = ["op", "model"]
  constants   = { architecture = "DeepseekV4ForCausalLM", num_sites = 2, hc_mult = 4, sinkhorn_iters = 20 }
  include     = [local.parts.chosen]

  rows "model" { values = [for r in local.models.mhc : { model = r.model, selected = r.selected }] }

  axis "op" {
    values      = ["pre", "post"]
    description = "before or after the block; the table's op_name"
  }

  sweep "num_tokens" { values = module.shapes.mhc_tokens }
}
