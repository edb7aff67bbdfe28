# Linear layers.

grid "gemm" {
  enabled     = contains(var.selection.ops, "gemm")
  description = "linear layers: m tokens through a weight of n x k"
  op          = "gemm"
  perf_table  = "gemm_perf"
  columns     = ["gemm_dtype", "m", "n", "k"]
  include     = [local.parts.gemm_widths]

  # vLLM pads narrow and block-scaled weights itself, so nothing is left out for
  # its shape. Largest first: what does not fit shows at once.
  loop_order = ["n", "k", "width", "format"]

  rows "format" {
    values = [for f in [
      { gemm_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { gemm_dtype = "fp8", min_sm = 89, max_sm = 999 },
      { gemm_dtype = "fp8_block", min_sm = 89, max_sm = 999 },
      { gemm_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
    ] : f if length(var.formats) == 0 || contains(var.formats, f.gemm_dtype)]
  }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = "SM ${local.sm} has no tensor cores for the format: FP8 starts at SM 89, NVFP4 at SM 100"
  }

  distinct {}
}
