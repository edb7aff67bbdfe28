# DeepSeek V3 (multi-head latent attention), V3.2 (sparse attention) and V4
# (compressed sparse attention, hyper-connections).

locals {
  deepseek = {
    moe = [
      { model_name = "deepseek-ai/DeepSeek-V3", models = ["deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.2"], hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 256, dtypes = ["fp8_block"], router = local.routers.deepseek_v3 },
      { model_name = "nvidia/DeepSeek-V3.1-NVFP4", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 256, dtypes = ["nvfp4"], router = local.routers.deepseek_v3 },
      { model_name = "deepseek-ai/DeepSeek-V4-Flash", hidden_size = 4096, inter_size = 2048, topk = 6, num_experts = 256, dtypes = ["w4a8_mxfp4_mxfp8"], router = local.routers.deepseek_v4_flash },
      { model_name = "sgl-project/DeepSeek-V4-Flash-FP8", hidden_size = 4096, inter_size = 2048, topk = 6, num_experts = 256, dtypes = ["fp8_block"], router = local.routers.deepseek_v4_flash },
      { model_name = "deepseek-ai/DeepSeek-V4-Pro", hidden_size = 7168, inter_size = 3072, topk = 6, num_experts = 384, dtypes = ["w4a8_mxfp4_mxfp8"], router = local.routers.deepseek_v4_pro },
      { model_name = "sgl-project/DeepSeek-V4-Pro-FP8", hidden_size = 7168, inter_size = 3072, topk = 6, num_experts = 384, dtypes = ["fp8_block"], router = local.routers.deepseek_v4_pro },
      { model_name = "nvidia/DeepSeek-V4-Flash-NVFP4", hidden_size = 4096, inter_size = 2048, topk = 6, num_experts = 256, dtypes = ["nvfp4"], router = local.routers.deepseek_v4_flash },
      { model_name = "nvidia/DeepSeek-V4-Pro-NVFP4", hidden_size = 7168, inter_size = 3072, topk = 6, num_experts = 384, dtypes = ["nvfp4"], router = local.routers.deepseek_v4_pro },
    ]

    # Experts spread over many GPUs with redundant copies (wide expert parallelism); the shapes are those of moe.
    wide_ep = true

    mla = [{ model = "deepseek-ai/DeepSeek-V3", models = ["deepseek-ai/DeepSeek-V3", "nvidia/DeepSeek-V3.1-NVFP4"], num_heads = 128 }]

    dsa = [{ model = "deepseek-ai/DeepSeek-V3.2", architecture = "DeepseekV32ForCausalLM", num_heads = 128, gemm_type = "fp8_block", max_position = 163840, shares_index = false }]

    dsv4 = [
      { model = "sgl-project/DeepSeek-V4-Flash-FP8", models = local.deepseek_v4_flash, num_heads = 64, hidden_size = 4096, max_position = 1048576 },
      { model = "sgl-project/DeepSeek-V4-Pro-FP8", models = local.deepseek_v4_pro, num_heads = 128, hidden_size = 7168, max_position = 1048576 },
    ]

    # GLM-5.3-Flash has the width of V4 Flash.
    mhc = [
      { model = "deepseek-ai/DeepSeek-V4-Flash", models = concat(local.deepseek_v4_flash, var.cases == "095f58a" ? [] : local.glm53_flash_models), hidden_size = 4096, hc_mult = 4 },
      { model = "deepseek-ai/DeepSeek-V4-Pro", models = local.deepseek_v4_pro, hidden_size = 7168, hc_mult = 4 },
    ]

    # The shared expert on 1 to 8 ranks.
    widths = [
      { model = "deepseek-ai/DeepSeek-V4-Pro", models = local.deepseek_v4_pro, n = [768, 1536, 3072, 6144], k = [7168], cases = "aisimulate-0.13" },
      { model = "deepseek-ai/DeepSeek-V4-Pro", models = local.deepseek_v4_pro, n = [7168], k = [384, 768, 1536, 3072], cases = "aisimulate-0.13" },
    ]
  }

  deepseek_v4_flash = ["deepseek-ai/DeepSeek-V4-Flash", "sgl-project/DeepSeek-V4-Flash-FP8", "nvidia/DeepSeek-V4-Flash-NVFP4"]
  deepseek_v4_pro   = ["deepseek-ai/DeepSeek-V4-Pro", "sgl-project/DeepSeek-V4-Pro-FP8", "nvidia/DeepSeek-V4-Pro-NVFP4"]
}
