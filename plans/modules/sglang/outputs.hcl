output "grids" {
  description = "The grids by op; null for those that are not planned."
  value = merge(module.common.grids, {
    moe                                = grid.moe
    mhc_module                         = grid.mhc_module
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
  })
}
