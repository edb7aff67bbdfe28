grid "gemm" {
  enabled    = contains(local.chosen, "gemm")
  op         = "gemm"
  perf_table = "gemm_perf"
  columns    = ["gemm_dtype", "m", "n", "k"]

  # Weights change least often.
  loop_order = ["n", "k", "format"]

  axis "n" {
    values      = local.widths
    description = "output features"
  }

  axis "k" {
    values      = local.widths
    description = "input features"
  }

  rows "format" {
    values = [
      { gemm_dtype = "bfloat16", min_sm = 80 },
      { gemm_dtype = "float16", min_sm = 70 },
      { gemm_dtype = "fp8", min_sm = 89 },
      { gemm_dtype = "int8", min_sm = 75 },
    ]
  }

  axis "m" {
    values      = local.tokens
    description = "tokens"
  }

  filter "sm_gate" {
    keep   = local.sm >= min_sm
    reason = "SM ${local.sm} has no tensor cores for the format"
  }

  filter "half_is_bfloat16" {
    keep   = gemm_dtype != "float16" || n == k
    reason = "both 16-bit formats run at one speed: square layers are enough to see that"
  }

  filter "int8_rows" {
    keep   = gemm_dtype != "int8" || m > 16
    reason = "torch's int8 product needs more than 16 rows"
  }
}

grid "compute_scale" {
  enabled    = contains(local.chosen, "compute_scale")
  op         = "compute_scale"
  perf_table = "computescale_perf"
  columns    = ["m", "k"]
  constants  = { quant_dtype = "fp8" }

  axis "m" {
    values = local.tokens
  }

  axis "k" {
    values = local.widths
  }

  filter "sm_gate" {
    keep   = local.sm >= 89
    reason = "FP8 starts at SM 89"
  }
}
