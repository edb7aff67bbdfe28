# Linear layers.

grid "gemm" {
  enabled     = contains(var.selection.ops, "gemm")
  description = "linear layers: m tokens through a weight of n x k"
  op          = "gemm"
  perf_table  = "gemm_perf"
  columns     = ["gemm_dtype", "m", "n", "k"]
  include     = [local.parts.gemm_widths]

  # Largest weights first: what does not fit shows at once. A weight depends on
  # n, k and the format, so it is built once for all m.
  loop_order = ["n", "k", "width", "format"]

  rows "format" { values = local.gemm_formats }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = "SM ${local.sm} has no tensor cores for the format: FP8 starts at SM 89, NVFP4 at SM 100"
  }

  filter "block_min_128" {
    keep   = !contains(["fp8_block", "nvfp4"], gemm_dtype) || (n >= 128 && k >= 128)
    reason = "block-scaled formats have one scale per 128 x 128 block: a narrower weight has none"
  }

  filter "block_weight_elements" {
    keep   = gemm_dtype != "fp8_block" || n * k < 2147483648
    reason = "the block quantiser counts the weight's elements with 32 bits"
  }

  filter "output_elements" {
    keep   = m * n < 2147483648
    reason = "the runtime counts the output's elements with 32 bits"
  }

  filter "input_elements" {
    keep   = m * k < 2147483648
    reason = "the runtime counts the input's elements with 32 bits"
  }

  distinct {}
}

locals {
  gemm_formats = [
    for f in [
      { gemm_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { gemm_dtype = "fp8", min_sm = 87, max_sm = 999 },
      { gemm_dtype = "fp8_block", min_sm = 87, max_sm = 999 },
      { gemm_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
    ] : f if length(var.gemm_dtypes) == 0 || contains(var.gemm_dtypes, f.gemm_dtype)
  ]
}
