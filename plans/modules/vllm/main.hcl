# The op grids of vLLM. What it shares with other frameworks is in modules/common; shapes of models are in
# modules/models.

variable "selection" { description = "The outputs of modules/selection for this backend." }

variable "formats" {
  type        = list(string)
  default     = []
  description = "Plan linear layers and caches of attention in these formats only; empty plans all."

  validation {
    condition     = alltrue([for f in var.formats : contains(["bfloat16", "fp8", "fp8_block", "nvfp4"], f)])
    error_message = "Formats of linear layers are bfloat16, fp8, fp8_block and nvfp4; caches are bfloat16 or fp8."
  }
}

module "common" {
  source       = "../common"
  selection    = var.selection
  cache_budget = floor(var.selection.memory * 0.9)
  module_heads = local.newer ? [128, 96, 64, 48, 32, 24, 16, 12, 8, 4, 2, 1] : null

  formats = {
    # vLLM pads narrow and block-scaled weights itself, so nothing is left out for its shape.
    gemm = [for f in [
      { gemm_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { gemm_dtype = "fp8", min_sm = 89, max_sm = 999 },
      { gemm_dtype = "fp8_block", min_sm = 89, max_sm = 999 },
      { gemm_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
    ] : f if length(var.formats) == 0 || contains(var.formats, f.gemm_dtype)]

    # The cache format decides; attention itself multiplies in bfloat16.
    context    = local.caches
    generation = local.caches

    moe = [
      { moe_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { moe_dtype = "int4_wo", min_sm = 0, max_sm = 999 },
      { moe_dtype = "fp8", min_sm = 87, max_sm = 999 },
      { moe_dtype = "fp8_block", min_sm = 89, max_sm = 999 },
      { moe_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
      { moe_dtype = "w4a16_mxfp4", min_sm = 0, max_sm = 999 },
      { moe_dtype = "w4a8_mxfp4_mxfp8", min_sm = 100, max_sm = 109 },
    ]

    # vLLM has no FP8 path for the absorbed products.
    bmm = [{ bmm_dtype = "bfloat16", min_sm = 0, max_sm = 999 }]

    # Attention itself in FP8 is a prefill kernel of SM 100.
    mla_context    = concat(local.mla, [{ attention = "fp8", cache = { fp8 = 100 }, weights = local.weights }])
    mla_generation = local.mla
    dsa            = local.mla
    msa            = [{ cache = { bfloat16 = 0, fp8 = 0 }, weights = local.weights }]
  }

  attention = {
    base = {
      context = [{ num_heads = local.query_heads, mha = true, gqa = true, head_dim = [64, 128], window_size = [0, 128] }]
      generation = [
        { num_heads = [1, 2, 4, 8], mha = true, gqa = false, head_dim = [64, 128], window_size = [0, 128] },
        { num_heads = local.query_heads, mha = false, gqa = true, head_dim = [64, 128], window_size = [0, 128] },
      ]
    }
    plain     = {}
    constants = { attn_dtype = "bfloat16" }
    columns   = { context = [], generation = [] }
    key       = { context = [], generation = [] }
    limits    = { generation = part.generation }
  }
}

locals {
  sm          = var.selection.sm
  query_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64]

  caches = [for f in [
    { kv_cache_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
    { kv_cache_dtype = "fp8", min_sm = 87, max_sm = 999 },
  ] : f if length(var.formats) == 0 || contains(var.formats, f.kv_cache_dtype)]

  # Case plans since 095f58a have heads of Kimi-K3, and FP8 weights with a scale for the whole tensor.
  newer = var.selection.cases != "095f58a"

  # The formats of weights in whole attention modules, with the first SM version of each.
  weights = { bfloat16 = 0, fp8_block = 89, nvfp4 = 100 }
  mla = [for weights in local.newer ? [local.weights, { fp8 = 89 }] : [local.weights] :
    { cache = { bfloat16 = 0, fp8 = 90 }, weights = weights }
  ]
}

# Cached tokens times query heads are bounded for heads of 128, in proportion for others; grouped heads share a cache
# and may have twice as many.
part "generation" {
  derive "max_batch" {
    value       = floor(floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) * 128 / head_dim) / target_seq) / num_heads)
    description = "largest batch at this length"
  }

  derive "max_batch_doubled" {
    value       = floor(floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) * 128 / head_dim) / (target_seq * 2)) / num_heads)
    description = "largest batch at twice this length"
  }
}

# One task measures all token counts of a shape: the weights are built once.
grid "moe" {
  enabled     = var.selection.plans.moe
  description = "the experts of one rank"
  perf_table  = "moe_perf"
  columns     = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "model_name"]
  include     = [module.common.parts.moe]

  filter "topology" {
    keep   = moe_tp_size == 1 || moe_ep_size == 1
    reason = "vLLM splits experts either by tensor or by expert parallelism, never by both"
  }

  # Checkpoints of one shape are one case, named after the first.
  distinct {
    by = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution"]
  }

  sweep "num_tokens" { values = module.shapes.moe_tokens }
}

module "shapes" { source = "../shapes" }

output "grids" { value = merge(module.common.grids, grid) } # the grids by op; null for those that are not planned
