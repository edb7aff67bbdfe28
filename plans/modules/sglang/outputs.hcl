output "grids" { value = merge(module.common.grids, grid) } # the grids by op; null for those that are not planned
