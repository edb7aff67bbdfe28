part "absorbed" {
  axis "num_tokens" { values = powers(2, 0, 13) }
  axis "num_heads" { values = reverse(powers(2, 0, 7)) } # heads of one rank: 128 over 1 to 128 ranks
  axis "bmm_dtype" { values = ["bfloat16"] }
}

grid "mla_bmm_gen_pre" {
  enabled    = contains(local.chosen, "mla_bmm_gen_pre")
  perf_table = "mla_bmm_perf"
  constants  = { op_name = "mla_gen_pre" }
  include    = [part.absorbed]
}

grid "mla_bmm_gen_post" {
  enabled    = contains(local.chosen, "mla_bmm_gen_post")
  perf_table = "mla_bmm_perf"
  constants  = { op_name = "mla_gen_post" }
  include    = [part.absorbed]
}
