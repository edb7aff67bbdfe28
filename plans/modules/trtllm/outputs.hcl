locals { shared = module.common.grids }

output "grids" {
  description = "The grids by op; null for those that are not planned."
  value = {
    gemm                       = grid.gemm
    compute_scale              = local.shared.compute_scale
    attention_context          = grid.attention_context
    attention_generation       = grid.attention_generation
    encoder_attention          = local.shared.encoder_attention
    mla_context                = local.shared.mla_context
    mla_generation             = local.shared.mla_generation
    mla_bmm_gen_pre            = local.shared.mla_bmm_gen_pre
    mla_bmm_gen_post           = local.shared.mla_bmm_gen_post
    moe                        = grid.moe
    moe_ep                     = grid.moe_ep
    mla_context_module         = local.shared.mla_context_module
    mla_generation_module      = local.shared.mla_generation_module
    dsa_context_module         = local.shared.dsa_context_module
    dsa_generation_module      = local.shared.dsa_generation_module
    msa_context_module         = local.shared.msa_context_module
    msa_generation_module      = local.shared.msa_generation_module
    dsv4_csa_context_module    = local.shared.dsv4_csa_context_module
    dsv4_csa_generation_module = local.shared.dsv4_csa_generation_module
    dsv4_hca_context_module    = local.shared.dsv4_hca_context_module
    dsv4_hca_generation_module = local.shared.dsv4_hca_generation_module
    mhc_module                 = grid.mhc_module
    gdn                        = local.shared.gdn
    mamba2                     = grid.mamba2
  }
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
