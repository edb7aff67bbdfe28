# MiniMax M2.5 and M3 (sparse attention).

locals {
  minimax = {
    architecture = "MiniMaxM2ForCausalLM"

    attention = [{ profile = "minimax_m2", models = ["MiniMaxAI/MiniMax-M2.5", "nvidia/MiniMax-M2.5-NVFP4"], num_heads = 48, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16] }]

    moe = [
      { model_name = "MiniMaxAI/MiniMax-M2.5", hidden_size = 3072, inter_size = 1536, topk = 8, num_experts = 256, dtypes = ["fp8_block"], wide_ep = true, router = local.routers.minimax_m2 },
      { model_name = "nvidia/MiniMax-M2.5-NVFP4", hidden_size = 3072, inter_size = 1536, topk = 8, num_experts = 256, dtypes = ["nvfp4"], wide_ep = true, router = local.routers.minimax_m2 },
      { model_name = "MiniMaxAI/MiniMax-M3", hidden_size = 6144, inter_size = 3072, topk = 4, num_experts = 128, dtypes = ["bfloat16"], router = local.routers.minimax_m3 },
      { model_name = "nvidia/MiniMax-M3-NVFP4", hidden_size = 6144, inter_size = 3072, topk = 4, num_experts = 128, dtypes = ["nvfp4"], router = local.routers.minimax_m3 },
    ]

    msa = [{ model = "MiniMaxAI/MiniMax-M3", models = ["MiniMaxAI/MiniMax-M3", "nvidia/MiniMax-M3-NVFP4"], num_heads = 64, max_position = 1048576 }]
  }
}
