# Gemma 4: layers with a sliding window alternate with global ones, whose heads are twice as wide.

locals {
  gemma4 = {
    architecture = "Gemma4ForConditionalGeneration"

    attention = [
      { profile = "gemma4_swa", models = ["google/gemma-4-26B-A4B", "nvidia/Gemma-4-26B-A4B-NVFP4"], num_heads = 16, num_kv_heads = 8, head_dim = 256, window = 1024, tp = [1, 2, 4, 8, 16], scaling = 1 },
      { profile = "gemma4_global", models = ["google/gemma-4-26B-A4B", "nvidia/Gemma-4-26B-A4B-NVFP4"], num_heads = 16, num_kv_heads = 2, head_dim = 512, window = 0, tp = [1, 2, 4, 8, 16], scaling = 1 },
      { profile = "gemma4_31b_swa", models = ["google/gemma-4-31B"], num_heads = 32, num_kv_heads = 16, head_dim = 256, window = 1024, tp = [1, 2, 4, 8, 16, 32], scaling = 1 },
      { profile = "gemma4_31b_global", models = ["google/gemma-4-31B"], num_heads = 32, num_kv_heads = 4, head_dim = 512, window = 0, tp = [1, 2, 4, 8, 16, 32], scaling = 1 },
    ]

    moe = [
      { model_name = "google/gemma-4-26B-A4B", hidden_size = 2816, inter_size = 704, topk = 8, num_experts = 128, dtypes = local.any_dtype, router = local.routers.gemma4 },
      { model_name = "nvidia/Gemma-4-26B-A4B-NVFP4", hidden_size = 2816, inter_size = 704, topk = 8, num_experts = 128, dtypes = ["bfloat16"], router = local.routers.gemma4 },
    ]
  }
}
