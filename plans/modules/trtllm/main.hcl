# The op grids of TensorRT-LLM 1.3. What it shares with other frameworks is in modules/common; shapes of models are in
# modules/models.

variable "selection" { description = "The outputs of modules/selection for this backend." }

variable "gemm_dtypes" {
  type        = list(string)
  default     = []
  description = "Formats of linear layers; none means all."
}

module "common" {
  source    = "../common"
  selection = var.selection
  limits    = { blocks = true, gemm = part.gemm }

  formats = {
    gemm = [for f in [
      { gemm_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { gemm_dtype = "fp8", min_sm = 87, max_sm = 999 },
      { gemm_dtype = "fp8_block", min_sm = 87, max_sm = 999 },
      { gemm_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
    ] : f if length(var.gemm_dtypes) == 0 || contains(var.gemm_dtypes, f.gemm_dtype)]
    context = [
      { kv_cache_dtype = "bfloat16", attn_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "bfloat16", min_sm = 87, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "fp8", min_sm = 87, max_sm = 999 },
    ]
    generation = [
      { kv_cache_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", min_sm = 87, max_sm = 999 },
    ]
    moe = [
      { moe_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { moe_dtype = "fp8", min_sm = 87, max_sm = 999 },
      { moe_dtype = "fp8_block", min_sm = 90, max_sm = 999 },
      { moe_dtype = "int4_wo", min_sm = 100, max_sm = 999 },
      { moe_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
      { moe_dtype = "w4a16_mxfp4", min_sm = 90, max_sm = 119 },
      { moe_dtype = "w4a8_mxfp4_mxfp8", min_sm = 100, max_sm = 999 },
    ]
    bmm = [{ bmm_dtype = "bfloat16", min_sm = 0, max_sm = 999 }, { bmm_dtype = "fp8", min_sm = 87, max_sm = 999 }]
    latent = [
      { kv_cache_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", min_sm = 0, max_sm = 999 },
    ]

    # Attention itself always multiplies in bfloat16 here.
    mla_context    = [{ cache = { bfloat16 = 0, fp8 = 87 }, weights = local.weights }]
    mla_generation = [{ cache = { bfloat16 = 0, fp8 = 87 }, weights = local.weights }]
    dsa            = [{ cache = { bfloat16 = 0, fp8 = 100 }, weights = local.weights }]
    msa            = [{ cache = { bfloat16 = 0 }, weights = local.weights }]
  }

  # The backend of a case is TRTLLM, or FLASHINFER for heads that TensorRT-LLM's own kernels do not take, such as
  # Gemma's wide ones; the table distinguishes them by kernel_source. Heads of 64 are measured with and without
  # gpt-oss's window.
  attention = {
    base = {
      context = [
        { num_heads = local.query_heads, mha = true, gqa = true, head_dim = [64], window_size = [0, 128] },
        { num_heads = local.query_heads, mha = true, gqa = true, head_dim = [128, 256], window_size = [0] },
      ]
      generation = [
        { num_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64], mha = true, gqa = false, head_dim = [64, 128, 256], window_size = [0] },
        { num_heads = local.decode_heads, mha = false, gqa = true, head_dim = [64, 128, 256], window_size = [0] },
        { num_heads = local.decode_heads, mha = false, gqa = true, head_dim = [64], window_size = [128] },
      ]
    }
    plain     = { attn_backend = "TRTLLM" }
    heads     = { for r in var.selection.models.attention : r.profile => { attn_backend = startswith(r.profile, "gemma4") ? "FLASHINFER" : "TRTLLM" } }
    constants = {}
    columns   = { context = ["attn_dtype", "attn_backend"], generation = ["attn_backend"] }
    key       = { context = ["attn_dtype", "attn_backend"], generation = ["attn_backend"] }
    limits    = { context = part.context, generation = part.generation }
  }
}

locals {
  sm           = var.selection.sm
  query_heads  = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96]
  decode_heads = [1, 2, 4, 8, 16, 32, 64, 96, 128]

  # The formats of weights in whole attention modules, with the first SM version of each.
  weights = { bfloat16 = 0, fp8_block = 89, nvfp4 = 100 }
}

part "gemm" {
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
}

part "context" {
  include = [part.groups]

  # Found by running: these combinations crash FP8 attention on SM 120.
  filter "fp8_attention_sm120" {
    keep = local.sm < 120 || attn_dtype != "fp8" || batch_size * isl < (
      num_heads == num_key_value_heads ? (
        head_dim == 128 && num_heads == 96 ? 65536 :
        head_dim != 256 ? 1e15 :
        num_heads == 96 ? 32768 : num_heads == 64 ? 49152 : num_heads == 48 ? 65536 : 1e15
        ) : head_dim == 256 ? (
        num_heads == 96 && contains([1, 4], num_key_value_heads) ? 98304 :
        num_heads == 96 && num_key_value_heads == 8 ? 81920 :
        num_heads == 64 && contains([1, 2, 4, 8], num_key_value_heads) ? 131072 :
        num_heads == 48 && num_key_value_heads == 8 ? 131072 : 1e15
      ) : 1e15
    )
    reason = "FP8 attention on SM 120 fails with so many heads and tokens"
  }
}

# Cached tokens times query heads are bounded; grouped heads share a cache and may have twice as many.
part "generation" {
  include = [part.groups]

  derive "max_batch" {
    value       = floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) / target_seq) / num_heads)
    description = "largest batch at this length"
  }

  derive "max_batch_doubled" {
    value       = floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) / (target_seq * 2)) / num_heads)
    description = "largest batch at twice this length"
  }
}

part "groups" {
  filter "gqa_ratio_sm100" {
    keep   = local.sm < 100 || attn_backend != "TRTLLM" || floor(num_heads / num_key_value_heads) < 32 || floor(num_heads / num_key_value_heads) % 32 == 0
    reason = "TensorRT-LLM's SM100 kernels group at most 32 query heads per key/value head, or multiples of 32"
  }
}

module "shapes" { source = "../shapes" }

# The grids by op; null for those that are not planned.
output "grids" { value = merge(module.common.grids, { moe = grid.moe, moe_ep = grid.moe_ep, mamba2 = grid.mamba2 }) }
