# The grids by op; null for those that are not planned.
output "grids" { value = { for op, g in grid : op => g if contains(keys(var.selection.bindings), op) && !contains(var.own, op) } }

# Parts that grids of frameworks include, by name; those of modules/selection and modules/shapes among them.
output "parts" { value = merge(local.parts, { moe = part.moe, moe_256_gpus = part.moe_256_gpus }) }
