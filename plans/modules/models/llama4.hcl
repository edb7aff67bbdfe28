# Llama 4: three of four layers attend within chunks of 8192 tokens.

locals {
  llama4 = {
    architecture = "Llama4ForConditionalGeneration"

    attention = [
      { profile = "llama4", models = local.llama4_models, num_heads = 40, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8], chunk = 8192 },
      { profile = "llama4_chunked", models = local.llama4_models, num_heads = 40, num_kv_heads = 8, head_dim = 128, window = 8192, tp = [1, 2, 4, 8], chunk = 8192 },
    ]

    moe = [
      { model_name = "meta-llama/Llama-4-Scout-17B-16E-Instruct", hidden_size = 5120, inter_size = 8192, topk = 1, num_experts = 16, dtypes = local.any_dtype, router = local.routers.llama4 },
      { model_name = "meta-llama/Llama-4-Maverick-17B-128E-Instruct", hidden_size = 5120, inter_size = 8192, topk = 1, num_experts = 128, dtypes = local.any_dtype, router = local.routers.llama4 },
    ]
  }

  llama4_models = ["meta-llama/Llama-4-Scout-17B-16E-Instruct", "meta-llama/Llama-4-Maverick-17B-128E-Instruct"]
}
