# GLM 5 to 5.3: sparse attention with a lightning indexer; from 5.2 on, layers share the index. GLM-5.3-Flash: Kimi
# delta attention, hyper-connections, and attention that only its own collector measures.

locals {
  glm5 = {
    architecture = "GlmMoeDsaForCausalLM"
    wide_ep      = true

    # SGLang runs a checkpoint in its own format only.
    moe = [
      for m in [
        { model_name = "zai-org/GLM-5", own = "bfloat16" },
        { model_name = "zai-org/GLM-5-FP8", own = "fp8_block" },
        { model_name = "nvidia/GLM-5-NVFP4", own = "nvfp4" },
        { model_name = "zai-org/GLM-5.1", own = "bfloat16" },
        { model_name = "zai-org/GLM-5.1-FP8", own = "fp8_block" },
        { model_name = "nvidia/GLM-5.1-NVFP4", own = "nvfp4" },
        { model_name = "zai-org/GLM-5.2", own = "bfloat16", next = "zai-org/GLM-5.3" },
        { model_name = "zai-org/GLM-5.2-FP8", own = "fp8_block", next = "zai-org/GLM-5.3-FP8" },
        { model_name = "nvidia/GLM-5.2-NVFP4", own = "nvfp4", next = "nvidia/GLM-5.3-NVFP4" },
        ] : {
        model_name  = m.model_name
        models      = var.cases == "095f58a" ? [m.model_name] : compact([m.model_name, try(m.next, "")])
        hidden_size = 6144
        inter_size  = 2048
        topk        = 8
        num_experts = 256
        dtypes      = merge(local.any_dtype, { sglang = [m.own] })
        router      = local.routers.glm5
      }
    ]

    dsa = [
      { model = "zai-org/GLM-5", models = ["zai-org/GLM-5", "zai-org/GLM-5-FP8", "nvidia/GLM-5-NVFP4", "zai-org/GLM-5.1", "zai-org/GLM-5.1-FP8", "nvidia/GLM-5.1-NVFP4"], num_heads = 64, gemm_type = "bfloat16", max_position = 202752, shares_index = false },
      { model = "zai-org/GLM-5.2", models = concat(["zai-org/GLM-5.2"], local.glm53), num_heads = 64, gemm_type = "bfloat16", max_position = 1048576, shares_index = true },
      { model = "zai-org/GLM-5.2-FP8", models = concat(["zai-org/GLM-5.2-FP8", "nvidia/GLM-5.2-NVFP4"], local.glm53_quantised), num_heads = 64, gemm_type = "fp8_block", max_position = 1048576, shares_index = true },
    ]
  }

  glm53_flash = {
    architecture = "Glm5NextForConditionalGeneration"
    cases        = "aisimulate-0.13"

    moe = [for m in [{ model_name = "zai-org/GLM-5.3-Flash", own = "fp8_block" }, { model_name = "nvidia/GLM-5.3-Flash-NVFP4", own = "nvfp4" }] : {
      model_name  = m.model_name
      hidden_size = 4096
      inter_size  = 2048
      topk        = 8
      num_experts = 288
      dtypes      = { trtllm = [], vllm = [m.own], sglang = [m.own] }
      router      = merge(local.routers.glm5, { swiglu_limit = 10 })
    }]

    kda    = [{ model_name = "zai-org/GLM-5.3-Flash", models = local.glm53_flash_models, d_model = 4096, d_conv = 4, num_heads = 64, head_dim = 128, tp = [1, 2, 4, 8] }]
    widths = [{ model = "zai-org/GLM-5.3-Flash", models = local.glm53_flash_models, n = [8, 16, 32, 288, 3336, 6416, 12576, 19360, 24576, 24896, 38720, 77440, 154880], k = [4096] }]
  }

  glm53              = var.cases == "095f58a" ? [] : ["zai-org/GLM-5.3"]
  glm53_quantised    = var.cases == "095f58a" ? [] : ["zai-org/GLM-5.3-FP8", "nvidia/GLM-5.3-NVFP4"]
  glm53_flash_models = ["zai-org/GLM-5.3-Flash", "nvidia/GLM-5.3-Flash-NVFP4"]
}
