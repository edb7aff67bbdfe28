# Attention of vision encoders: no mask, no cache, bfloat16 only. Lengths are
# patch counts of common image sizes, and powers of two.

grid "encoder_attention" {
  enabled     = local.plans.encoder_attention
  description = "attention of vision encoders"
  op          = "encoder_attention"
  perf_table  = "encoder_attention_perf"
  columns     = ["batch_size", "isl", "num_heads", "head_dim"]
  constants   = { attn_dtype = "bfloat16" }

  case_set "base" {
    include = [local.parts.base_grid]

    axis "num_heads" { values = [2, 4, 5, 8, 10, 12, 14, 16, 20, 24, 32] }
    axis "head_dim" { values = [64, 72, 80] }
  }

  case_set "model_heads" {
    include = [local.parts.served_heads]

    rows "head" {
      values = [for r in local.models.encoder : {
        native_num_heads = r.num_heads
        head_dim         = r.head_dim
        served_tp        = r.tp
        selected         = r.selected
      }]
    }
  }

  axis "isl" {
    values = [
      1, 13, 16, 26, 32, 52, 64, 104, 128, 192, 256, 400, 512, 576, 1024, 1296, 1500, 1536, 2048, 2304,
      3072, 3136, 4096, 5184, 6144, 6400, 7744, 8192, 9216, 10240, 10816, 12288, 12544, 14400, 16384,
      24576, 32768, 49152, 65536,
    ]
    description = "patches per image"
  }

  axis "batch_size" {
    values      = powers(2, 0, 6)
    description = "images"
  }

  filter "tokens" {
    keep   = batch_size * isl <= 131072
    reason = "more than 131072 patches at once: no encoder is fed so much, and the run takes seconds"
  }

  filter "index_32bit" {
    keep   = 8 * batch_size * isl * num_heads * head_dim < 2147483648
    reason = "queries, keys, values and output take 2^31 bytes or more, beyond the kernel's 32-bit offsets"
  }

  distinct {}
}
