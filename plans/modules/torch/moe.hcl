grid "moe" {
  enabled    = contains(local.chosen, "moe")
  perf_table = "moe_perf"
  columns    = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "model_name"]

  rows "model" {
    values = [
      { model_name = "deepseek-ai/DeepSeek-V3", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 256 },
      { model_name = "Qwen/Qwen3-30B-A3B", hidden_size = 2048, inter_size = 768, topk = 8, num_experts = 128 },
      { model_name = "Qwen/Qwen3-235B-A22B", hidden_size = 4096, inter_size = 1536, topk = 8, num_experts = 128 },
      { model_name = "mistralai/Mixtral-8x7B-v0.1", hidden_size = 4096, inter_size = 14336, topk = 2, num_experts = 8 },
    ]
  }

  rows "parallel" {
    values = [
      { moe_tp_size = 1, moe_ep_size = 1 },
      { moe_tp_size = 8, moe_ep_size = 1 },
      { moe_tp_size = 1, moe_ep_size = 8 },
      { moe_tp_size = 2, moe_ep_size = 4 },
    ]
  }

  axis "distribution" { values = ["balanced", "power_law_1.01", "power_law_1.2"] } # how tokens spread over the experts
  axis "moe_dtype" { values = ["bfloat16"] }

  filter "sm_gate" {
    keep   = local.sm >= 90
    reason = "torch's grouped product needs SM 90"
  }

  filter "whole" {
    keep   = moe_tp_size * moe_ep_size > 1 || num_experts * inter_size * hidden_size * 6 < var.system.mem_capacity / 4
    reason = "the experts of one layer would take more than a quarter of the memory"
  }

  # One case measures all token counts on the same weights.
  sweep "num_tokens" { values = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384] }
}
