# Multi-head and grouped-query attention. A case names the kernels that SGLang would
# choose for the model on this GPU, so kernel_source is part of the key.

locals {
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
  inclusive_window = ["Gemma4ForConditionalGeneration", "GptOssForCausalLM"]

  model_heads = [for r in local.models.attention : {
    native_num_heads           = r.num_heads
    native_num_key_value_heads = r.num_kv_heads
    head_dim                   = r.head_dim
    v_head_dim                 = r.v_head_dim
    window_size                = r.window
    # Chunked attention has no window of its own.
    runtime_window_size  = r.window == 0 || r.chunk != null ? -1 : contains(local.inclusive_window, r.architecture) ? r.window - 1 : r.window
    attention_chunk_size = r.chunk
    has_attention_sink   = r.sink
    scaling              = r.scaling
    kernel_source        = try(local.kernels_of[r.architecture][local.sm_name], local.default_kernel)
    architecture         = r.architecture
    served_tp            = r.tp
    selected             = r.selected
  } if contains(r.only, "sglang")]

  query_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96]
  kv_heads    = [1, 2, 4, 8]

  decode_mha_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64]
  decode_gqa_heads = [1, 2, 4, 8, 16, 32, 64, 96, 128]

  sm_unknown = "SGLang's benchmark knows the attention kernels of SM 89, 90, 100, 103 and 120 only"
}

part "plain" {
  description = "what a model without peculiarities has"

  rows "attributes" {
    values = [{
      window_size          = 0
      runtime_window_size  = -1
      attention_chunk_size = null
      has_attention_sink   = false
      scaling              = null
      kernel_source        = local.default_kernel
      architecture         = null
    }]
  }

  derive "v_head_dim" { value = head_dim }
}

grid "attention_context" {
  enabled     = contains(var.selection.ops, "attention_context") && local.wants.attention
  description = "attention in prefill"
  op          = "attention_context"
  perf_table  = "context_attention_perf"
  columns = [
    "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype", "attn_dtype",
    "v_head_dim", "runtime_window_size", "attention_chunk_size", "has_attention_sink", "scaling", "kernel_source", "architecture",
  ]
  constants  = { beam_width = 1, step = 0 }
  loop_order = ["head_dim", "num_heads", "num_key_value_heads", "head", "tp_size", "isl", "batch_size"]
  include    = [local.parts.attention_context]

  # Models come first: their attributes must win over the plain grid's.
  case_set "model_heads" {
    include = [local.parts.served_kv_heads]

    rows "head" { values = local.model_heads }
  }

  case_set "mha" {
    include = [part.plain, local.parts.base_grid]

    axis "num_heads" { values = reverse(local.query_heads) }
    axis "head_dim" { values = [128, 256] }

    derive "num_key_value_heads" { value = num_heads }
  }

  case_set "gqa" {
    include = [part.plain, local.parts.base_grid, local.parts.grouped]

    axis "num_heads" { values = reverse(local.query_heads) }
    axis "num_key_value_heads" { values = local.kv_heads }
    axis "head_dim" { values = [128, 256] }
  }

  rows "precision" {
    values = [
      { kv_cache_dtype = "bfloat16", attn_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "bfloat16", min_sm = 89, max_sm = 999 },
      { kv_cache_dtype = "fp8", attn_dtype = "fp8", min_sm = 89, max_sm = 999 },
    ]
  }

  filter "sm_known" {
    keep   = local.default_kernel != "none"
    reason = local.sm_unknown
  }

  distinct {
    by = ["num_heads", "num_key_value_heads", "head_dim", "window_size", "batch_size", "isl", "kv_cache_dtype", "attn_dtype", "kernel_source"]
  }
}
