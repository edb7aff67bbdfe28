# MiMo 7B (dense) and MiMo V2 Flash (keys of 192, values of 128).

locals {
  mimo_7b = {
    architecture = "MiMoForCausalLM"

    attention = [{ profile = "mimo_7b", models = ["XiaomiMiMo/MiMo-7B-RL"], num_heads = 32, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32] }]

    projections = [{ model = "XiaomiMiMo/MiMo-7B-RL", hidden_size = 4096, inter_size = 11008, num_heads = 32, num_kv_heads = 8, head_dim = 128, vocab_size = 151680 }]
  }

  mimo_v2 = {
    architecture = "MiMoV2FlashForCausalLM"

    attention = [
      { profile = "mimo_v2_global", models = ["XiaomiMiMo/MiMo-V2-Flash"], num_heads = 64, num_kv_heads = 4, head_dim = 192, v_head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32, 64] },
      { profile = "mimo_v2_swa", models = ["XiaomiMiMo/MiMo-V2-Flash"], num_heads = 64, num_kv_heads = 8, head_dim = 192, v_head_dim = 128, window = 128, tp = [1, 2, 4, 8, 16, 32, 64], sink = true },
    ]

    moe = [{ model_name = "XiaomiMiMo/MiMo-V2-Flash", hidden_size = 4096, inter_size = 2048, topk = 8, num_experts = 256, dtypes = local.any_dtype, router = local.routers.mimo_v2 }]
  }
}
