# Mixtral. Its attention heads lie on the default grid of heads.

locals {
  mixtral = {
    moe = [
      { model_name = "mistralai/Mixtral-8x7B-v0.1", hidden_size = 4096, inter_size = 14336, topk = 2, num_experts = 8, dtypes = local.any_dtype },
      { model_name = "mistralai/Mixtral-8x22B-v0.1", hidden_size = 6144, inter_size = 16384, topk = 2, num_experts = 8, dtypes = local.any_dtype },
    ]
  }
}
