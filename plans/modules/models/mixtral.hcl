# Mixtral. Its attention heads lie on the base grids of all backends, except for those of 8x22B on eight ranks.

locals {
  mixtral = {
    architecture = "MixtralForCausalLM"

    attention = [
      { profile = "mixtral_8x7b", models = ["mistralai/Mixtral-8x7B-v0.1"], num_heads = 32, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8], only = [] },
      { profile = "mixtral_8x22b", models = ["mistralai/Mixtral-8x22B-v0.1"], num_heads = 48, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8], only = [] },
    ]

    moe = [
      { model_name = "mistralai/Mixtral-8x7B-v0.1", hidden_size = 4096, inter_size = 14336, topk = 2, num_experts = 8, dtypes = local.any_dtype },
      { model_name = "mistralai/Mixtral-8x22B-v0.1", hidden_size = 6144, inter_size = 16384, topk = 2, num_experts = 8, dtypes = local.any_dtype },
    ]
  }
}
