# GLM 5, 5.1 and 5.2: sparse attention with a lightning indexer; 5.2 shares the
# index between layers.

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
        { model_name = "zai-org/GLM-5.2", own = "bfloat16" },
        { model_name = "zai-org/GLM-5.2-FP8", own = "fp8_block" },
        { model_name = "nvidia/GLM-5.2-NVFP4", own = "nvfp4" },
        ] : {
        model_name  = m.model_name
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
      { model = "zai-org/GLM-5.2", num_heads = 64, gemm_type = "bfloat16", max_position = 1048576, shares_index = true },
      { model = "zai-org/GLM-5.2-FP8", models = ["zai-org/GLM-5.2-FP8", "nvidia/GLM-5.2-NVFP4"], num_heads = 64, gemm_type = "fp8_block", max_position = 1048576, shares_index = true },
    ]
  }
}
