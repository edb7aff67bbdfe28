output "grids" {
  description = "The grids by op; null for those that are not planned."
  value = {
    gemm                 = grid.gemm
    attention_context    = grid.attention_context
    attention_generation = grid.attention_generation
    moe                  = grid.moe
    mla_bmm_gen_pre      = grid.mla_bmm_gen_pre
    mla_bmm_gen_post     = grid.mla_bmm_gen_post
    compute_scale        = grid.compute_scale
  }
}

# The grid of half-precision layers, which belong to no table; null when they are not planned.
output "gemm_float16" { value = grid.gemm_float16 }
