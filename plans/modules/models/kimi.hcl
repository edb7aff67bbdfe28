# Kimi K2 (DeepSeek-like latent attention) and K3 (Kimi delta attention with full-attention layers in between).

locals {
  kimi = {
    architecture = "KimiK3ForConditionalGeneration"
    wide_ep      = true

    attention = [
      { profile = "kimi_k3_dspark_draft", models = ["moonshotai/Kimi-K3"], num_heads = 64, num_kv_heads = 16, head_dim = 64, window = 0, tp = [1, 2, 4, 8] },
      { profile = "kimi_k3_mla_as", models = ["moonshotai/Kimi-K3"], num_heads = 96, num_kv_heads = 96, head_dim = 128, window = 0, tp = [1, 2, 4, 8] },
    ]

    moe = [
      { model_name = "moonshotai/Kimi-K2-Instruct", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, dtypes = ["fp8_block"], router = local.routers.kimi_k2 },
      { model_name = "moonshotai/Kimi-K2.5", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, dtypes = ["int4_wo"], router = local.routers.kimi_k2 },
      { model_name = "nvidia/Kimi-K2.5-NVFP4", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, dtypes = ["nvfp4"], router = local.routers.kimi_k2 },
      { model_name = "nvidia/Kimi-K2.6-NVFP4", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, dtypes = ["nvfp4"], router = local.routers.kimi_k2 },
      { model_name = "nvidia/Kimi-K2.7-Code-NVFP4", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, dtypes = ["nvfp4"], router = local.routers.kimi_k2 },
      # The expert parallelism that serves K3 has no table of wide expert parallelism since 0.13.
      {
        model_name = "moonshotai/Kimi-K3", wide_ep = var.cases == "095f58a", hidden_size = 3584, inter_size = 3072, topk = 16, num_experts = 896, router = local.routers.kimi_k3
        dtypes     = { trtllm = [], vllm = ["w4a16_mxfp4"], sglang = ["w4a16_mxfp4", "w4a8_mxfp4_mxfp8"] }
      },
    ]

    mla = [
      { model = "moonshotai/Kimi-K2.5", models = ["moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-K2.5", "nvidia/Kimi-K2.5-NVFP4", "nvidia/Kimi-K2.6-NVFP4", "nvidia/Kimi-K2.7-Code-NVFP4"], num_heads = 64 },
      { model = "moonshotai/Kimi-K3", num_heads = 96 },
    ]

    kda = [{ model_name = "moonshotai/Kimi-K3", d_model = 7168, d_conv = 4, num_heads = 96, head_dim = 128, tp = [1, 2, 4, 8] }]

    encoder = [{ profile = "kimi_k25_moonvit", models = ["moonshotai/Kimi-K2.5", "nvidia/Kimi-K2.5-NVFP4"], num_heads = 16, head_dim = 72, tp = [1, 2, 4, 8, 16] }]
  }
}
