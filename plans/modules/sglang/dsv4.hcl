# DeepSeek-V4 attention: compressed sparse (csa) and heavily compressed (hca). A task builds the module once for a
# model, a tensor-parallel size and a batch size, and walks all lengths.

locals {
  dsv4_models = [for r in var.selection.models.dsv4 : {
    model            = r.model
    native_num_heads = r.num_heads
    hidden_size      = r.hidden_size
    max_position     = r.max_position
    selected         = r.selected
  }]

  # The table spells the cache's format fp8_e4m3.
  dsv4_precisions = [
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "bfloat16" },
    { mla_dtype = "bfloat16", kv_cache_dtype = "fp8", gemm_type = "fp8_block" },
  ]

  dsv4_lengths = concat([1, 4, 8, 16, 32, 64, 128, 256, 512, 1024], module.shapes.long_lengths)
  dsv4_columns = ["batch_size", "tp_size", "num_heads", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]

  dsv4_pool = "more than 2^20 cached tokens over the batch: the token pool ends there"
}

part "dsv4" {
  include = [part.module_heads, local.parts.decode_batches]
  rows "model" { values = local.dsv4_models }
  rows "precision" { values = local.dsv4_precisions }
}

# The task measures what of this fits one chunk of prefill and the token pool, which only it knows.
part "dsv4_context" {
  include = [part.dsv4]

  sweep "lengths" {
    columns = ["isl", "step"]
    include = [part.model_context]

    axis "step" { values = local.prefixes }
    axis "isl" { values = reverse(local.dsv4_lengths) }

    filter "activations" {
      keep   = batch_size * isl * hidden_size * 2 <= floor(local.memory * 4 / 5)
      reason = "the activations alone take more than four fifths of the device"
    }
  }
}

part "dsv4_generation_lengths" {
  axis "step" { values = local.dsv4_lengths }

  filter "cache" {
    keep   = batch_size * step <= 1048576
    reason = local.dsv4_pool
  }

  filter "batch_ladder" {
    keep = (
      (step < 524288 || batch_size <= 1) && (step < 262144 || batch_size <= 2) && (step < 131072 || batch_size <= 4) &&
      (step < 65536 || batch_size <= 8) && (step < 32768 || batch_size <= 16) && (step < 8192 || batch_size <= 64)
    )
    reason = "long caches are served in small batches: 64 sequences from 8192 tokens, halved with every doubling from 32768"
  }
}

part "dsv4_generation" {
  include = [part.dsv4]

  sweep "lengths" {
    columns = ["step"]
    include = [part.dsv4_generation_lengths]
  }
}

grid "dsv4_csa_context_module" {
  enabled     = var.selection.plans.dsv4_csa_context_module
  description = "DeepSeek-V4's compressed sparse attention in prefill"
  perf_table  = "dsv4_csa_context_module_perf"
  columns     = local.dsv4_columns
  constants   = { compress_ratio = 4 }
  include     = [part.dsv4_context]
}

grid "dsv4_hca_context_module" {
  enabled     = var.selection.plans.dsv4_hca_context_module
  description = "DeepSeek-V4's heavily compressed attention in prefill"
  perf_table  = "dsv4_hca_context_module_perf"
  columns     = local.dsv4_columns
  constants   = { compress_ratio = 128 }
  include     = [part.dsv4_context]
}

grid "dsv4_csa_generation_module" {
  enabled     = var.selection.plans.dsv4_csa_generation_module
  description = "DeepSeek-V4's compressed sparse attention in decode"
  perf_table  = "dsv4_csa_generation_module_perf"
  columns     = local.dsv4_columns
  constants   = { compress_ratio = 4, isl = 1 }
  include     = [part.dsv4_generation]
}

grid "dsv4_hca_generation_module" {
  enabled     = var.selection.plans.dsv4_hca_generation_module
  description = "DeepSeek-V4's heavily compressed attention in decode"
  perf_table  = "dsv4_hca_generation_module_perf"
  columns     = local.dsv4_columns
  constants   = { compress_ratio = 128, isl = 1 }
  include     = [part.dsv4_generation]
}
