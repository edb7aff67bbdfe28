# Sizes that every backend sweeps. They are the points between which the database interpolates: dense where kernels
# change (tile edges at small and odd token counts), powers of two elsewhere.

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

  decode_batches = powers(2, 0, 10)

  context_lengths = [1, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288, 16384]
}

output "gemm_tokens" { value = local.gemm_tokens }
output "gemm_widths" { value = local.gemm_widths }
output "bmm_tokens" { value = local.bmm_tokens }
output "moe_tokens" { value = concat(local.bmm_tokens, [12288, 16384]) }

output "mhc_tokens" {
  value = concat(local.bmm_tokens, [12288, 16384, 20480, 32768, 49152, 65536, 98304, 131072, 262144, 524288])
}

output "context_lengths" { value = local.context_lengths } # new tokens per sequence in prefill
output "context_batches" { value = powers(2, 0, 8) }
output "cache_lengths" { value = powers(2, 1, 17) } # tokens in the cache in decode, the decoded one included
output "decode_batches" { value = local.decode_batches }

output "long_lengths" {
  description = "Lengths beyond 1024 tokens, up to a million."
  value       = concat([1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288], powers(2, 14, 19), [1048575])
}

output "ep_sizes" { value = powers(2, 0, 8) }

part "layer_points" {
  description = "the sweep of a layer with state: prefill and decode"

  case_set "context" {
    axis "batch_size" { values = powers(2, 0, 6) }
    axis "seq_len" { values = powers(2, 0, 15) }

    filter "phase" {
      keep   = phase == "context"
      reason = "a point of prefill"
    }
  }

  case_set "generation" {
    axis "batch_size" { values = local.decode_batches }
    axis "seq_len" { values = [1] }

    filter "phase" {
      keep   = phase == "generation"
      reason = "a point of decode"
    }
  }
}

part "decode_batches" {
  axis "batch_size" { values = local.decode_batches }
}

output "parts" {
  description = "Parts for include, by name."
  value       = { layer_points = part.layer_points, decode_batches = part.decode_batches }
}
