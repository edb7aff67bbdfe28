# Step 3.7 Flash: global layers of 64 heads, windowed layers of 96.

locals {
  step3p7 = {
    architecture = "Step3p7FlashForCausalLM"

    attention = [
      { profile = "step3p7_global", models = ["stepfun-ai/Step-3.7-Flash", "stepfun-ai/Step-3.7-Flash-FP8"], num_heads = 64, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8] },
      { profile = "step3p7_swa", models = ["stepfun-ai/Step-3.7-Flash", "stepfun-ai/Step-3.7-Flash-FP8"], num_heads = 96, num_kv_heads = 8, head_dim = 128, window = 512, tp = [1, 2, 4, 8] },
    ]

    moe = [
      { model_name = "stepfun-ai/Step-3.7-Flash-FP8", hidden_size = 4096, inter_size = 1280, topk = 8, num_experts = 288, dtypes = local.any_dtype, router = local.routers.step3p7 },
      { model_name = "stepfun-ai/Step-3.7-Flash", hidden_size = 4096, inter_size = 1280, topk = 8, num_experts = 288, dtypes = local.any_dtype, router = local.routers.step3p7 },
    ]
  }
}
