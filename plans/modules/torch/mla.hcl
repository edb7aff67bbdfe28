locals {
  latent_tokens = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
  latent_heads  = [128, 64, 32, 16, 8, 4, 2, 1]
}

grid "mla_bmm_gen_pre" {
  enabled    = contains(local.chosen, "mla_bmm_gen_pre")
  perf_table = "mla_bmm_perf"
  columns    = ["num_tokens", "num_heads", "bmm_dtype"]
  constants  = { op_name = "mla_gen_pre" }
  axis "num_tokens" { values = local.latent_tokens }
  axis "num_heads" { values = local.latent_heads } # heads of one rank: 128 over 1 to 128 ranks
  axis "bmm_dtype" { values = ["bfloat16"] }
}

grid "mla_bmm_gen_post" {
  enabled    = contains(local.chosen, "mla_bmm_gen_post")
  perf_table = "mla_bmm_perf"
  columns    = ["num_tokens", "num_heads", "bmm_dtype"]
  constants  = { op_name = "mla_gen_post" }
  axis "num_tokens" { values = local.latent_tokens }
  axis "num_heads" { values = local.latent_heads }
  axis "bmm_dtype" { values = ["bfloat16"] }
}
