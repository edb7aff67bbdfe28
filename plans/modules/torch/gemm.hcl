grid "gemm" {
  enabled    = contains(local.chosen, "gemm")
  perf_table = "gemm_perf"
  columns    = ["gemm_dtype", "m", "n", "k"]

  # Weights change least often.
  loop_order = ["n", "k", "format"]

  axis "n" { values = local.widths } # output features
  axis "k" { values = local.widths } # input features

  rows "format" {
    values = [
      { gemm_dtype = "bfloat16", min_sm = 80 },
      { gemm_dtype = "fp8", min_sm = 89 },
      { gemm_dtype = "sq", min_sm = 75 },
    ]
  }

  axis "m" { values = local.tokens } # tokens

  filter "sm_gate" {
    keep   = local.sm >= min_sm
    reason = "SM ${local.sm} has no tensor cores for the format"
  }

  filter "int8_rows" {
    keep   = gemm_dtype != "sq" || m > 16
    reason = "torch's int8 product needs more than 16 rows"
  }
}

# The tables have no word for float16, which runs at bfloat16's speed: square
# layers in a file of their own are enough to see that.
grid "gemm_float16" {
  enabled = contains(local.chosen, "gemm_float16")
  op      = "gemm"
  columns = ["gemm_dtype", "m", "n", "k"]
  axis "width" { values = local.widths }
  derive "n" { value = width }
  derive "k" { value = width }
  axis "m" { values = local.tokens } # tokens
  axis "gemm_dtype" { values = ["float16"] }
}

grid "compute_scale" {
  enabled    = contains(local.chosen, "compute_scale")
  perf_table = "computescale_perf"
  columns    = ["m", "k"]
  constants  = { quant_dtype = "fp8" }

  axis "m" { values = local.tokens }
  axis "k" { values = local.widths }

  filter "sm_gate" {
    keep   = local.sm >= 89
    reason = "FP8 starts at SM 89"
  }
}
