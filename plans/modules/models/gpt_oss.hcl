# gpt-oss: attention sinks, every other layer with a window of 128 tokens.

locals {
  gpt_oss = {
    architecture = "GptOssForCausalLM"

    attention = [
      { profile = "gpt_oss_global", models = ["openai/gpt-oss-120b", "openai/gpt-oss-20b"], num_heads = 64, num_kv_heads = 8, head_dim = 64, window = 0, tp = [1, 2, 4, 8, 16, 32, 64], sink = true },
      { profile = "gpt_oss_swa", models = ["openai/gpt-oss-120b", "openai/gpt-oss-20b"], num_heads = 64, num_kv_heads = 8, head_dim = 64, window = 128, tp = [1, 2, 4, 8, 16, 32, 64], sink = true },
    ]

    moe = [
      for m in [{ model_name = "openai/gpt-oss-120b", num_experts = 128 }, { model_name = "openai/gpt-oss-20b", num_experts = 32 }] : {
        model_name  = m.model_name
        hidden_size = 2880
        inter_size  = 2880
        topk        = 4
        num_experts = m.num_experts
        dtypes = {
          trtllm = ["w4a16_mxfp4", "w4a8_mxfp4_mxfp8"]
          vllm   = ["w4a16_mxfp4"]
          sglang = ["w4a16_mxfp4", "w4a8_mxfp4_mxfp8"]
        }
        router = local.routers.gpt_oss
      }
    ]
  }
}
