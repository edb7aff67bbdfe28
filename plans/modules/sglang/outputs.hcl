locals {
  # Kimi delta attention and MiniMax attention came with a later release.
  runtime_of = {
    gemm                               = "base"
    compute_scale                      = "base"
    attention_context                  = "base"
    attention_generation               = "base"
    encoder_attention                  = "base"
    mla_context                        = "base"
    mla_generation                     = "base"
    mla_bmm_gen_pre                    = "base"
    mla_bmm_gen_post                   = "base"
    moe                                = "base"
    mhc_module                         = "base"
    gdn                                = "base"
    kda                                = "next"
    dsa_context_module                 = "base"
    dsa_generation_module              = "base"
    dsa_context_module_skip_indexer    = "base"
    dsa_generation_module_skip_indexer = "base"
    msa_context_module                 = "next"
    msa_generation_module              = "next"
    dsv4_csa_context_module            = "base"
    dsv4_csa_generation_module         = "base"
    dsv4_hca_context_module            = "base"
    dsv4_hca_generation_module         = "base"
    glm5_mqa_logits_module             = "base"
    glm5_topk_module                   = "base"
    glm5_dsa_attn_module               = "base"
    dsv4_paged_mqa_logits_module       = "base"
    dsv4_csa_topk_calib                = "base"
  }

  shared = module.common.grids
}

output "grids" {
  description = "The grids by op; null for those that are not planned."
  value = {
    gemm                               = grid.gemm
    compute_scale                      = local.shared.compute_scale
    attention_context                  = grid.attention_context
    attention_generation               = grid.attention_generation
    encoder_attention                  = local.shared.encoder_attention
    mla_context                        = local.shared.mla_context
    mla_generation                     = local.shared.mla_generation
    mla_bmm_gen_pre                    = local.shared.mla_bmm_gen_pre
    mla_bmm_gen_post                   = local.shared.mla_bmm_gen_post
    moe                                = grid.moe
    mhc_module                         = grid.mhc_module
    gdn                                = local.shared.gdn
    kda                                = local.shared.kda
    dsa_context_module                 = grid.dsa_context_module
    dsa_generation_module              = grid.dsa_generation_module
    dsa_context_module_skip_indexer    = grid.dsa_context_module_skip_indexer
    dsa_generation_module_skip_indexer = grid.dsa_generation_module_skip_indexer
    msa_context_module                 = grid.msa_context_module
    msa_generation_module              = grid.msa_generation_module
    dsv4_csa_context_module            = grid.dsv4_csa_context_module
    dsv4_csa_generation_module         = grid.dsv4_csa_generation_module
    dsv4_hca_context_module            = grid.dsv4_hca_context_module
    dsv4_hca_generation_module         = grid.dsv4_hca_generation_module
    glm5_mqa_logits_module             = grid.glm5_mqa_logits_module
    glm5_topk_module                   = grid.glm5_topk_module
    glm5_dsa_attn_module               = grid.glm5_dsa_attn_module
    dsv4_paged_mqa_logits_module       = grid.dsv4_paged_mqa_logits_module
    dsv4_csa_topk_calib                = grid.dsv4_csa_topk_calib
  }
}

output "runtime_of" {
  description = "Which of the plan's runtimes an op runs in."
  value       = local.runtime_of
}
