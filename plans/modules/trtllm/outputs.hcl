output "grids" {
  description = "The grids by op; null for those that are not planned."
  value = merge({ for op, g in module.common.grids : op => g if contains(keys(var.selection.bindings), op) }, {
    gemm                 = grid.gemm
    attention_context    = grid.attention_context
    attention_generation = grid.attention_generation
    moe                  = grid.moe
    moe_ep               = grid.moe_ep
    mhc_module           = grid.mhc_module
    mamba2               = grid.mamba2
  })
}
