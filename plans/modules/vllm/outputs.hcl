locals {
  # Kimi delta attention came after 0.24 and needs a preview build.
  runtime_of = {
    gemm                         = "base"
    compute_scale                = "base"
    attention_context            = "base"
    attention_generation         = "base"
    encoder_attention            = "base"
    mla_bmm_gen_pre              = "base"
    mla_bmm_gen_post             = "base"
    moe                          = "base"
    mla_context_module           = "base"
    mla_generation_module        = "base"
    dsa_context_module           = "base"
    dsa_generation_module        = "base"
    msa_context_module           = "base"
    msa_generation_module        = "base"
    dsv4_csa_context_module      = "base"
    dsv4_csa_generation_module   = "base"
    dsv4_hca_context_module      = "base"
    dsv4_hca_generation_module   = "base"
    dsv4_paged_mqa_logits_module = "base"
    dsv4_hca_attn_module         = "base"
    mhc_module                   = "base"
    gdn                          = "base"
    kda                          = "preview"
  }

  shared = module.common.grids
}

output "grids" {
  description = "The grids by op; null for those that are not planned."
  value = {
    gemm                         = grid.gemm
    compute_scale                = local.shared.compute_scale
    attention_context            = grid.attention_context
    attention_generation         = grid.attention_generation
    encoder_attention            = local.shared.encoder_attention
    mla_bmm_gen_pre              = local.shared.mla_bmm_gen_pre
    mla_bmm_gen_post             = local.shared.mla_bmm_gen_post
    moe                          = grid.moe
    mla_context_module           = local.shared.mla_context_module
    mla_generation_module        = local.shared.mla_generation_module
    dsa_context_module           = local.shared.dsa_context_module
    dsa_generation_module        = local.shared.dsa_generation_module
    msa_context_module           = local.shared.msa_context_module
    msa_generation_module        = local.shared.msa_generation_module
    dsv4_csa_context_module      = local.shared.dsv4_csa_context_module
    dsv4_csa_generation_module   = local.shared.dsv4_csa_generation_module
    dsv4_hca_context_module      = local.shared.dsv4_hca_context_module
    dsv4_hca_generation_module   = local.shared.dsv4_hca_generation_module
    dsv4_paged_mqa_logits_module = grid.dsv4_paged_mqa_logits_module
    dsv4_hca_attn_module         = grid.dsv4_hca_attn_module
    mhc_module                   = grid.mhc_module
    gdn                          = local.shared.gdn
    kda                          = local.shared.kda
  }
}

output "runtime_of" {
  description = "Which of the plan's runtimes an op runs in."
  value       = local.runtime_of
}
