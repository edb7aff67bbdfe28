# Qwen3: dense, mixture of experts, and their vision variants.

locals {
  qwen3 = {
    architecture = "Qwen3ForCausalLM"

    attention = [
      { profile = "qwen3_small", models = ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"], num_heads = 16, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16] },
      { profile = "qwen3_8b", models = ["Qwen/Qwen3-4B", "Qwen/Qwen3-8B"], num_heads = 32, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32] },
      { profile = "qwen3_32b", models = ["Qwen/Qwen3-32B"], num_heads = 64, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32, 64] },
    ]

    projections = [
      { model = "Qwen/Qwen3-0.6B", hidden_size = 1024, inter_size = 3072, num_heads = 16, num_kv_heads = 8, head_dim = 128, vocab_size = 151936 },
      { model = "Qwen/Qwen3-1.7B", hidden_size = 2048, inter_size = 6144, num_heads = 16, num_kv_heads = 8, head_dim = 128, vocab_size = 151936 },
      { model = "Qwen/Qwen3-4B", hidden_size = 2560, inter_size = 9728, num_heads = 32, num_kv_heads = 8, head_dim = 128, vocab_size = 151936 },
      { model = "Qwen/Qwen3-8B", hidden_size = 4096, inter_size = 12288, num_heads = 32, num_kv_heads = 8, head_dim = 128, vocab_size = 151936 },
      { model = "Qwen/Qwen3-32B", hidden_size = 5120, inter_size = 25600, num_heads = 64, num_kv_heads = 8, head_dim = 128, vocab_size = 151936 },
    ]
  }

  qwen3_moe = {
    architecture = "Qwen3MoeForCausalLM"

    attention = [
      { profile = "qwen3_moe_30b", models = ["Qwen/Qwen3-30B-A3B"], num_heads = 32, num_kv_heads = 4, head_dim = 128, window = 0, tp = [1, 2, 4, 8] },
      { profile = "qwen3_moe_235b", models = ["Qwen/Qwen3-235B-A22B"], num_heads = 64, num_kv_heads = 4, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32, 64] },
      { profile = "qwen3_coder", models = ["Qwen/Qwen3-Coder-480B-A35B-Instruct"], num_heads = 96, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32] },
    ]

    # The 30B model is served on at most four tensor-parallel ranks.
    moe = [
      { model_name = "Qwen/Qwen3-30B-A3B", hidden_size = 2048, inter_size = 768, topk = 8, num_experts = 128, dtypes = local.any_dtype, max_tp = 4, router = local.routers.qwen3 },
      { model_name = "Qwen/Qwen3-235B-A22B", models = ["Qwen/Qwen3-235B-A22B", "Qwen/Qwen3-VL-235B-A22B-Instruct"], hidden_size = 4096, inter_size = 1536, topk = 8, num_experts = 128, dtypes = merge(local.any_dtype, { sglang = ["bfloat16", "fp8_block", "nvfp4"] }), router = local.routers.qwen3 },
      { model_name = "Qwen/Qwen3-Coder-480B-A35B-Instruct", hidden_size = 6144, inter_size = 2560, topk = 8, num_experts = 160, dtypes = local.any_dtype, router = local.routers.qwen3 },
    ]

    projections = [
      { model = "Qwen/Qwen3-30B-A3B", hidden_size = 2048, inter_size = 0, num_heads = 32, num_kv_heads = 4, head_dim = 128, vocab_size = 151936 },
      { model = "Qwen/Qwen3-235B-A22B", hidden_size = 4096, inter_size = 0, num_heads = 64, num_kv_heads = 4, head_dim = 128, vocab_size = 151936 },
      { model = "Qwen/Qwen3-Coder-480B-A35B-Instruct", hidden_size = 6144, inter_size = 0, num_heads = 96, num_kv_heads = 8, head_dim = 128, vocab_size = 151936 },
    ]
  }

  qwen3_vl = {
    architecture = "Qwen3VLForConditionalGeneration"

    attention = [
      { profile = "qwen3_vl_2b", models = ["Qwen/Qwen3-VL-2B-Instruct"], num_heads = 16, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16] },
      { profile = "qwen3_vl_4b_8b", models = ["Qwen/Qwen3-VL-4B-Instruct", "Qwen/Qwen3-VL-8B-Instruct"], num_heads = 32, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16] },
      { profile = "qwen3_vl_32b", models = ["Qwen/Qwen3-VL-32B-Instruct"], num_heads = 64, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16] },
    ]

    encoder = [
      { profile = "qwen3_vl_2b_4b", models = ["Qwen/Qwen3-VL-2B-Instruct", "Qwen/Qwen3-VL-4B-Instruct"], num_heads = 16, head_dim = 64, tp = [1, 2, 4, 8, 16] },
      { profile = "qwen3_vl_8b_32b", models = ["Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-VL-32B-Instruct"], num_heads = 16, head_dim = 72, tp = [1, 2, 4, 8, 16] },
    ]
  }

  qwen3_vl_moe = {
    architecture = "Qwen3VLMoeForConditionalGeneration"

    attention = [
      { profile = "qwen3_vl_moe_30b", models = ["Qwen/Qwen3-VL-30B-A3B-Instruct"], num_heads = 32, num_kv_heads = 4, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16] },
      { profile = "qwen3_vl_moe_235b", models = ["Qwen/Qwen3-VL-235B-A22B-Instruct"], num_heads = 64, num_kv_heads = 4, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16] },
    ]

    moe = [{ model_name = "Qwen/Qwen3-VL-30B-A3B-Instruct", hidden_size = 2048, inter_size = 768, topk = 8, num_experts = 128, dtypes = local.any_dtype, router = local.routers.qwen3 }]

    encoder = [{ profile = "qwen3_vl_moe", models = ["Qwen/Qwen3-VL-30B-A3B-Instruct", "Qwen/Qwen3-VL-235B-A22B-Instruct"], num_heads = 16, head_dim = 72, tp = [1, 2, 4, 8, 16] }]
  }
}
