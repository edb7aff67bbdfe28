# Qwen3.5 and Qwen3.8: gated delta-rule layers with full attention in every fourth.

locals {
  qwen35 = {
    architecture = "Qwen3_5ForConditionalGeneration"

    attention = [
      { profile = "qwen35_08b_2b", models = ["Qwen/Qwen3.5-0.8B", "Qwen/Qwen3.5-2B"], num_heads = 8, num_kv_heads = 2, head_dim = 256, window = 0, tp = [1, 2, 4, 8] },
      { profile = "qwen35_4b_9b", models = ["Qwen/Qwen3.5-4B", "Qwen/Qwen3.5-9B"], num_heads = 16, num_kv_heads = 4, head_dim = 256, window = 0, tp = [1, 2, 4, 8, 16] },
      { profile = "qwen35_27b", models = ["Qwen/Qwen3.5-27B"], num_heads = 24, num_kv_heads = 4, head_dim = 256, window = 0, tp = [1, 2, 4, 8] },
    ]

    gdn = [
      { model_name = "Qwen/Qwen3.5-0.8B", d_model = 1024, d_conv = 4, num_k_heads = 16, head_k_dim = 128, num_v_heads = 16, head_v_dim = 128, tp = [1, 2, 4, 8] },
      { model_name = "Qwen/Qwen3.5-2B", d_model = 2048, d_conv = 4, num_k_heads = 16, head_k_dim = 128, num_v_heads = 16, head_v_dim = 128, tp = [1, 2, 4, 8] },
      { model_name = "Qwen/Qwen3.5-4B", d_model = 2560, d_conv = 4, num_k_heads = 16, head_k_dim = 128, num_v_heads = 32, head_v_dim = 128, tp = [1, 2, 4, 8, 16] },
      { model_name = "Qwen/Qwen3.5-9B", d_model = 4096, d_conv = 4, num_k_heads = 16, head_k_dim = 128, num_v_heads = 32, head_v_dim = 128, tp = [1, 2, 4, 8, 16] },
      { model_name = "Qwen/Qwen3.5-27B", d_model = 5120, d_conv = 4, num_k_heads = 16, head_k_dim = 128, num_v_heads = 48, head_v_dim = 128, tp = [1, 2, 4, 8] },
    ]
  }

  qwen35_moe = {
    architecture = "Qwen3_5MoeForConditionalGeneration"

    attention = [
      { profile = "qwen35_35b", models = ["Qwen/Qwen3.5-35B-A3B", "nvidia/Qwen3.6-35B-A3B-NVFP4"], num_heads = 16, num_kv_heads = 2, head_dim = 256, window = 0, tp = [1, 2, 4, 8, 16] },
      { profile = "qwen35_122b", models = ["Qwen/Qwen3.5-122B-A10B", "nvidia/Qwen3.5-122B-A10B-NVFP4"], num_heads = 32, num_kv_heads = 2, head_dim = 256, window = 0, tp = [1, 2, 4, 8, 16, 32] },
      { profile = "qwen35_397b", models = ["Qwen/Qwen3.5-397B-A17B", "nvidia/Qwen3.5-397B-A17B-NVFP4"], num_heads = 32, num_kv_heads = 2, head_dim = 256, window = 0, tp = [1, 2, 4, 8, 16, 32] },
    ]

    gdn = [
      { model_name = "Qwen/Qwen3.5-35B-A3B", models = ["Qwen/Qwen3.5-35B-A3B", "nvidia/Qwen3.6-35B-A3B-NVFP4"], d_model = 2048, d_conv = 4, num_k_heads = 16, head_k_dim = 128, num_v_heads = 32, head_v_dim = 128, tp = [1, 2, 4, 8, 16], shared_expert = true },
      { model_name = "Qwen/Qwen3.5-122B-A10B", models = ["Qwen/Qwen3.5-122B-A10B", "nvidia/Qwen3.5-122B-A10B-NVFP4"], d_model = 3072, d_conv = 4, num_k_heads = 16, head_k_dim = 128, num_v_heads = 64, head_v_dim = 128, tp = [1, 2, 4, 8, 16], shared_expert = true },
      { model_name = "Qwen/Qwen3.5-397B-A17B", models = ["Qwen/Qwen3.5-397B-A17B", "nvidia/Qwen3.5-397B-A17B-NVFP4"], d_model = 4096, d_conv = 4, num_k_heads = 16, head_k_dim = 128, num_v_heads = 64, head_v_dim = 128, tp = [1, 2, 4, 8, 16], shared_expert = true },
    ]

    # No backend takes the NVFP4 checkpoint of the 35B model yet: it keeps its
    # row so that it is planned as soon as one does.
    moe = [
      { model_name = "Qwen/Qwen3.5-35B-A3B", hidden_size = 2048, inter_size = 512, topk = 8, num_experts = 256, dtypes = local.any_dtype, router = local.routers.qwen35 },
      { model_name = "Qwen/Qwen3.5-122B-A10B", hidden_size = 3072, inter_size = 1024, topk = 8, num_experts = 256, dtypes = local.any_dtype, router = local.routers.qwen35 },
      { model_name = "Qwen/Qwen3.5-397B-A17B", hidden_size = 4096, inter_size = 1024, topk = 10, num_experts = 512, dtypes = local.any_dtype, router = local.routers.qwen35 },
      { model_name = "nvidia/Qwen3.6-35B-A3B-NVFP4", hidden_size = 2048, inter_size = 512, topk = 8, num_experts = 256, dtypes = [], router = local.routers.qwen35 },
      { model_name = "nvidia/Qwen3.5-122B-A10B-NVFP4", hidden_size = 3072, inter_size = 1024, topk = 8, num_experts = 256, dtypes = ["nvfp4"], router = local.routers.qwen35 },
      { model_name = "nvidia/Qwen3.5-397B-A17B-NVFP4", hidden_size = 4096, inter_size = 1024, topk = 10, num_experts = 512, dtypes = ["nvfp4"], router = local.routers.qwen35 },
    ]
  }

  # Qwen3.8 Max.
  qwen38 = {
    architecture = "Qwen3_5MoeForCausalLM"
    cases        = "aisimulate-0.13"

    attention = [{ profile = "qwen38_max", models = local.qwen38_models, num_heads = 64, num_kv_heads = 4, head_dim = 256, window = 0, tp = [1, 2, 4, 8, 16, 32] }]

    moe = [
      { model_name = "Qwen/Qwen3.8-2.4T-A95B", models = local.qwen38_models, hidden_size = 8192, inter_size = 2048, topk = 10, num_experts = 512, dtypes = { trtllm = [], vllm = ["bfloat16", "fp8_block"], sglang = ["bfloat16", "fp8_block"] }, router = local.routers.qwen35 },
      { model_name = "RadixArk/Qwen3.8-2.4T-A95B-NVFP4", hidden_size = 8192, inter_size = 2048, topk = 10, num_experts = 512, dtypes = { trtllm = [], vllm = [], sglang = ["nvfp4"] }, router = local.routers.qwen35 },
    ]

    gdn = [{ model_name = "Qwen/Qwen3.8-2.4T-A95B", models = local.qwen38_models, d_model = 8192, d_conv = 4, num_k_heads = 16, head_k_dim = 128, num_v_heads = 128, head_v_dim = 128, tp = [1, 2, 4, 8, 16], shared_expert = true }]
  }

  qwen38_models = ["Qwen/Qwen3.8-2.4T-A95B", "Qwen/Qwen3.8-2.4T-A95B-FP8"]
}
