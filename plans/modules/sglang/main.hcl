# The op grids of SGLang 0.5. What it shares with other frameworks is in modules/common; shapes of models are in
# modules/models. A case of attention names the kernels that SGLang would choose for the model on this GPU, so
# kernel_source is part of the key.

variable "selection" { description = "The outputs of modules/selection for this backend." }

module "shapes" { source = "../shapes" }

module "common" {
  source    = "../common"
  selection = var.selection
  limits    = { blocks = true }

  own = [
    "mhc_module", "dsa_context_module", "dsa_generation_module", "msa_context_module", "msa_generation_module",
    "dsv4_csa_context_module", "dsv4_hca_context_module", "dsv4_csa_generation_module", "dsv4_hca_generation_module",
  ]

  formats = {
    # DeepGEMM's blocks run on SM 90 to 109.
    gemm = [
      { gemm_dtype = "fp8_block", min_sm = 90, max_sm = 109 },
      { gemm_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { gemm_dtype = "fp8", min_sm = 89, max_sm = 999 },
      { gemm_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
    ]
    context = [
      { kv_cache_dtype = "bfloat16", attn_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "bfloat16", min_sm = 89, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "fp8", min_sm = 89, max_sm = 999 },
    ]
    generation = [
      { kv_cache_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", min_sm = 89, max_sm = 999 },
    ]
    moe = [
      { moe_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { moe_dtype = "int4_wo", min_sm = 89, max_sm = 999 },
      { moe_dtype = "fp8_block", min_sm = 90, max_sm = 999 },
      { moe_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
      { moe_dtype = "w4a16_mxfp4", min_sm = 89, max_sm = 999 },
      { moe_dtype = "w4a8_mxfp4_mxfp8", min_sm = 100, max_sm = 109 },
    ]
    bmm = [{ bmm_dtype = "bfloat16", min_sm = 0, max_sm = 999 }, { bmm_dtype = "fp8", min_sm = 89, max_sm = 999 }]

    # An FP8 latent cache needs FlashAttention 3 or TensorRT-LLM's kernels; SM 89 and 120 have only Triton's, older
    # ones none that SGLang's benchmark knows.
    latent = [
      { kv_cache_dtype = "bfloat16", min_sm = 89, max_sm = 120 },
      { kv_cache_dtype = "fp8", min_sm = 90, max_sm = 103 },
    ]
  }

  attention = {
    base = {
      context = [{ num_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96], mha = true, gqa = true, head_dim = [128, 256], window_size = [0] }]
      generation = [
        { num_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64], mha = true, gqa = false, head_dim = [128, 256], window_size = [0] },
        { num_heads = [1, 2, 4, 8, 16, 32, 64, 96, 128], mha = false, gqa = true, head_dim = [128, 256], window_size = [0] },
      ]
    }
    plain = {
      runtime_window_size  = -1
      attention_chunk_size = null
      has_attention_sink   = false
      scaling              = null
      kernel_source        = local.default_kernel
      architecture         = null
    }
    heads = { for r in var.selection.models.attention : r.profile => {
      # Chunked attention has no window of its own.
      runtime_window_size  = r.window == 0 || r.chunk != null ? -1 : contains(local.inclusive_window, r.architecture) ? r.window - 1 : r.window
      attention_chunk_size = r.chunk
      has_attention_sink   = r.sink
      scaling              = r.scaling
      kernel_source        = try(local.kernels_of[r.architecture][local.sm_name], local.default_kernel)
      architecture         = r.architecture
    } }
    constants = {}
    columns   = { context = concat(["attn_dtype"], local.variant), generation = local.variant }
    key       = { context = ["attn_dtype", "kernel_source"], generation = ["kernel_source"] }
    limits    = { context = part.known, generation = part.generation }
  }
}

locals {
  sm    = var.selection.sm
  parts = module.common.parts

  # Memory that a process can allocate, and what SGLang leaves of it to a cache.
  memory       = var.selection.memory
  cache_budget = floor(local.memory * 0.9)

  # SGLang's default chunk of prefill tokens, by device memory.
  prefill_chunk = local.memory < 35 * 1073741824 ? 2048 : local.memory < 60 * 1073741824 ? 4096 : local.memory < 160 * 1073741824 ? 8192 : 16384

  # SGLang's choice for plain models, by SM version.
  default_kernels = { sm89 = "flashinfer", sm90 = "fa3", sm100 = "trtllm_mha", sm103 = "trtllm_mha", sm120 = "flashinfer" }

  # Models for which it chooses differently.
  kernels_of = {
    Gemma4ForConditionalGeneration     = { sm90 = "triton", sm120 = "triton" }
    Llama4ForConditionalGeneration     = { sm120 = "triton" }
    MiMoV2FlashForCausalLM             = { sm89 = "triton", sm100 = "triton", sm103 = "triton", sm120 = "triton" }
    Qwen3_5ForConditionalGeneration    = { sm100 = "triton", sm103 = "triton" }
    Qwen3_5MoeForConditionalGeneration = { sm100 = "triton", sm103 = "triton" }
    GptOssForCausalLM                  = { sm89 = "triton", sm120 = "triton" }
    NemotronHForCausalLM               = { sm100 = "flashinfer", sm103 = "flashinfer" }
  }

  sm_name        = "sm${local.sm}"
  default_kernel = lookup(local.default_kernels, local.sm_name, "none")

  # These count the current token into their window; SGLang's kernels do not.
  inclusive_window = ["Gemma4ForConditionalGeneration", "GptOssForCausalLM", "MuseGlimmerForConditionalGeneration"]

  variant = ["v_head_dim", "runtime_window_size", "attention_chunk_size", "has_attention_sink", "scaling", "kernel_source", "architecture"]
}

part "known" {
  filter "sm_known" {
    keep   = local.default_kernel != "none"
    reason = "SGLang's benchmark knows the attention kernels of SM 89, 90, 100, 103 and 120 only"
  }
}

# Cached tokens times query heads are bounded for heads of 128, in proportion for others; grouped heads share a cache
# and may have twice as many.
part "generation" {
  include = [part.known]

  derive "max_batch" {
    value       = floor(floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) / target_seq) / num_heads) * 128 / head_dim)
    description = "largest batch at this length"
  }

  derive "max_batch_doubled" {
    value       = floor(floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) / (target_seq * 2)) / num_heads) * 128 / head_dim)
    description = "largest batch at twice this length"
  }
}

# SGLang's benchmark takes one token count at a time. A case contains the routing of the model and the kernels.
grid "moe" {
  enabled     = var.selection.plans.moe
  description = "the experts of one rank"
  perf_table  = "moe_perf"
  include     = [local.parts.moe, local.parts.moe_256_gpus]
  columns = [
    "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "model_name",
    "swiglu_limit", "moe_backend", "activation", "is_gated", "has_bias", "gemm1_alpha", "gemm1_clamp_limit", "scoring_func",
    "routing_method_type", "routed_scaling_factor", "renormalize", "has_correction_bias", "num_expert_group", "topk_group",
    "apply_router_weight_on_input", "is_fp4_experts",
  ]

  axis "num_tokens" { values = module.shapes.moe_tokens }

  # On SM 90 the choice is known; elsewhere SGLang makes it.
  derive "moe_backend" {
    value = (
      local.sm != 90 ? "auto" :
      moe_dtype == "bfloat16" ? (is_gated ? "triton" : "flashinfer_cutlass") :
      moe_dtype == "w4a16_mxfp4" ? mxfp4_backend :
      moe_dtype == "int4_wo" ? "marlin" : "triton"
    )
  }

  derive "is_fp4_experts" { value = fp4_experts && contains(["w4a16_mxfp4", "w4a8_mxfp4_mxfp8"], moe_dtype) }

  # Checkpoints of one shape are one case, named after the first.
  distinct {
    by = ["moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution"]
  }
}

# Hyper-connections. One task walks all token counts.
grid "mhc_module" {
  enabled     = var.selection.plans.mhc_module
  description = "hyper-connections before and after a block"
  perf_table  = "mhc_module_perf"
  columns     = ["op", "model"]
  constants   = { architecture = "DeepseekV4ForCausalLM", num_sites = 2, hc_mult = 4, sinkhorn_iters = 20 }
  include     = [local.parts.chosen]

  rows "model" { values = [for r in var.selection.models.mhc : { model = r.model, selected = r.selected }] }
  axis "op" { values = ["pre", "post"] } # before or after the block; the table's op_name
  sweep "num_tokens" { values = module.shapes.mhc_tokens }
}
