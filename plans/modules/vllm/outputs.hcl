output "grids" {
  description = "The grids by op; null for those that are not planned."
  value = merge({ for op, g in module.common.grids : op => g if contains(keys(module.frameworks.bindings), op) }, {
    gemm                         = grid.gemm
    attention_context            = grid.attention_context
    attention_generation         = grid.attention_generation
    moe                          = grid.moe
    dsv4_paged_mqa_logits_module = grid.dsv4_paged_mqa_logits_module
    dsv4_hca_attn_module         = grid.dsv4_hca_attn_module
    mhc_module                   = grid.mhc_module
  })
}

output "runtime_of" {
  description = "Which of the plan's runtimes an op runs in."
  value       = module.frameworks.runtime_of
}

output "bindings" {
  description = "How the ops are hosted: the ops of a python runtime with collector_root."
  value       = module.frameworks.bindings
}

output "runtime_env" {
  description = "Environment that the collectors' own runner sets."
  value       = module.frameworks.runtime_env
}
