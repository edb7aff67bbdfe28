# Tests of this module: aicplan test plans/modules/shapes

run "token counts are dense at tile edges" {
  description = "kernels change their tile at these sizes"

  assert {
    condition     = length(output.gemm_tokens) == 74 && contains(output.gemm_tokens, 513) && !contains(output.gemm_tokens, 514)
    error_message = "each tile edge and the first size past it"
  }
  assert {
    condition     = output.cache_lengths[0] == 2 && reverse(output.cache_lengths)[0] == 131072
    error_message = "caches from 2 to 128 Ki tokens"
  }
}
