# Sizes that every backend sweeps. They are the points between which the
# database interpolates: dense where kernels change (tile edges at small and
# odd token counts), powers of two elsewhere.

locals {
  # One token up to a full tile, then each tile edge and the first size past it.
  gemm_tokens = concat(
    range(1, 18),
    flatten([for m in concat([32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256], range(512, 4353, 256)) : [m, m + 1]]),
    [8192, 16384, 32768],
  )

  gemm_widths = [
    32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168,
    8192, 10240, 12288, 16384, 51200, 65536,
  ]

  # Tokens of a forward pass through experts or small batched products.
  bmm_tokens = [
    1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768,
    1024, 1536, 2048, 3072, 4096, 6144, 8192,
  ]

  context_lengths = [1, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288, 16384]

  tp_sizes = powers(2, 0, 6)
}

output "gemm_tokens" {
  value = local.gemm_tokens
}

output "gemm_widths" {
  value = local.gemm_widths
}

output "bmm_tokens" {
  value = local.bmm_tokens
}

output "moe_tokens" {
  value = concat(local.bmm_tokens, [12288, 16384])
}

output "mhc_tokens" {
  value = concat(local.bmm_tokens, [12288, 16384, 20480, 32768, 49152, 65536, 98304, 131072, 262144, 524288])
}

output "context_lengths" {
  description = "New tokens per sequence in prefill."
  value       = local.context_lengths
}

output "context_batches" {
  value = powers(2, 0, 8)
}

output "cache_lengths" {
  description = "Tokens in the cache in decode, the decoded one included."
  value       = powers(2, 1, 17)
}

output "decode_batches" {
  value = powers(2, 0, 10)
}

output "tp_sizes" {
  value = local.tp_sizes
}

output "ep_sizes" {
  value = powers(2, 0, 8)
}

output "query_heads" {
  description = "Query heads on a rank of the models of the last years, and the steps between."
  value       = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96]
}

output "kv_heads" {
  value = [1, 2, 4, 8]
}
