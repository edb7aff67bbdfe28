# The grids by op; null for those that are not planned.
output "grids" { value = { for op, g in grid : op => g if op != "gemm_float16" } }

# The grid of half-precision layers, which belong to no table; null when they are not planned.
output "gemm_float16" { value = grid.gemm_float16 }
