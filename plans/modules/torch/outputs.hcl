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

output "files" {
  description = "Perf files by op."
  value = {
    gemm                 = "gemm_perf.txt"
    attention_context    = "context_attention_perf.txt"
    attention_generation = "generation_attention_perf.txt"
    moe                  = "moe_perf.txt"
    mla_bmm_gen_pre      = "mla_bmm_pre_perf.txt"
    mla_bmm_gen_post     = "mla_bmm_post_perf.txt"
    compute_scale        = "computescale_perf.txt"
  }
}
