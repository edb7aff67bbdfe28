output "grids" {
  description = "The grids by op; null for those that are not planned."
  value = { for op, g in {
    gemm                       = grid.gemm
    compute_scale              = grid.compute_scale
    attention_context          = grid.attention_context
    attention_generation       = grid.attention_generation
    encoder_attention          = grid.encoder_attention
    mla_context                = grid.mla_context
    mla_generation             = grid.mla_generation
    mla_bmm_gen_pre            = grid.mla_bmm_gen_pre
    mla_bmm_gen_post           = grid.mla_bmm_gen_post
    mla_context_module         = grid.mla_context_module
    mla_generation_module      = grid.mla_generation_module
    dsa_context_module         = grid.dsa_context_module
    dsa_generation_module      = grid.dsa_generation_module
    msa_context_module         = grid.msa_context_module
    msa_generation_module      = grid.msa_generation_module
    dsv4_csa_context_module    = grid.dsv4_csa_context_module
    dsv4_hca_context_module    = grid.dsv4_hca_context_module
    dsv4_csa_generation_module = grid.dsv4_csa_generation_module
    dsv4_hca_generation_module = grid.dsv4_hca_generation_module
    mhc_module                 = grid.mhc_module
    gdn                        = grid.gdn
    kda                        = grid.kda
  } : op => g if contains(keys(var.selection.bindings), op) && !contains(var.own, op) }
}

# Parts that grids of frameworks include, by name; those of modules/selection and modules/shapes among them.
output "parts" { value = merge(local.parts, { moe = part.moe, moe_256_gpus = part.moe_256_gpus }) }
