# Linear layers.

grid "gemm" {
  enabled     = contains(var.selection.ops, "gemm")
  description = "linear layers: m tokens through a weight of n x k"
  op          = "gemm"
  perf_table  = "gemm_perf"
  columns     = ["gemm_dtype", "m", "n", "k"]
  include     = [local.parts.gemm_widths]

  # Largest first: what does not fit shows at once.
  loop_order = ["n", "k", "width", "format"]

  rows "format" {
    values = [
      { gemm_dtype = "fp8_block", min_sm = 90, max_sm = 109 },
      { gemm_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { gemm_dtype = "fp8", min_sm = 89, max_sm = 999 },
      { gemm_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
    ]
  }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = "SM ${local.sm} has no kernel for the format: FP8 starts at SM 89, DeepGEMM's blocks run on SM 90 to 109, NVFP4 starts at SM 100"
  }

  filter "block_min_128" {
    keep   = !contains(["fp8_block", "nvfp4"], gemm_dtype) || (n >= 128 && k >= 128)
    reason = "block-scaled formats have one scale per 128 x 128 block: a narrower weight has none"
  }

  distinct {}
}
