op = "moe"
perf_table = "moe_perf"
columns = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "min_latency_mode", "model_name"]
case_set "base" {
  rows "model" {
    values = [
      { model_name = "deepseek-ai/DeepSeek-V3", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["fp8_block"] },
      { model_name = "nvidia/DeepSeek-V3.1-NVFP4", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "deepseek-ai/DeepSeek-V4-Flash", hidden_size = 4096, inter_size = 2048, topk = 6, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["w4a8_mxfp4_mxfp8"] },
      { model_name = "sgl-project/DeepSeek-V4-Flash-FP8", hidden_size = 4096, inter_size = 2048, topk = 6, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["fp8_block"] },
      { model_name = "deepseek-ai/DeepSeek-V4-Pro", hidden_size = 7168, inter_size = 3072, topk = 6, num_experts = 384, max_tp_exclusive = null, allowed_dtypes = ["w4a8_mxfp4_mxfp8"] },
      { model_name = "sgl-project/DeepSeek-V4-Pro-FP8", hidden_size = 7168, inter_size = 3072, topk = 6, num_experts = 384, max_tp_exclusive = null, allowed_dtypes = ["fp8_block"] },
      { model_name = "nvidia/DeepSeek-V4-Flash-NVFP4", hidden_size = 4096, inter_size = 2048, topk = 6, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "nvidia/DeepSeek-V4-Pro-NVFP4", hidden_size = 7168, inter_size = 3072, topk = 6, num_experts = 384, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "google/gemma-4-26B-A4B", hidden_size = 2816, inter_size = 704, topk = 8, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "nvidia/Gemma-4-26B-A4B-NVFP4", hidden_size = 2816, inter_size = 704, topk = 8, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["bfloat16"] },
      { model_name = "zai-org/GLM-5", hidden_size = 6144, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "zai-org/GLM-5-FP8", hidden_size = 6144, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "nvidia/GLM-5-NVFP4", hidden_size = 6144, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "zai-org/GLM-5.1", hidden_size = 6144, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "zai-org/GLM-5.1-FP8", hidden_size = 6144, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "nvidia/GLM-5.1-NVFP4", hidden_size = 6144, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "zai-org/GLM-5.2", hidden_size = 6144, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "zai-org/GLM-5.2-FP8", hidden_size = 6144, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "nvidia/GLM-5.2-NVFP4", hidden_size = 6144, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "openai/gpt-oss-120b", hidden_size = 2880, inter_size = 2880, topk = 4, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["w4a16_mxfp4", "w4a8_mxfp4_mxfp8"] },
      { model_name = "openai/gpt-oss-20b", hidden_size = 2880, inter_size = 2880, topk = 4, num_experts = 32, max_tp_exclusive = null, allowed_dtypes = ["w4a16_mxfp4", "w4a8_mxfp4_mxfp8"] },
      { model_name = "moonshotai/Kimi-K2-Instruct", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, max_tp_exclusive = null, allowed_dtypes = ["fp8_block"] },
      { model_name = "moonshotai/Kimi-K2.5", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, max_tp_exclusive = null, allowed_dtypes = ["int4_wo"] },
      { model_name = "nvidia/Kimi-K2.5-NVFP4", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "nvidia/Kimi-K2.6-NVFP4", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "nvidia/Kimi-K2.7-Code-NVFP4", hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 384, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "moonshotai/Kimi-K3", hidden_size = 3584, inter_size = 3072, topk = 16, num_experts = 896, max_tp_exclusive = null, allowed_dtypes = [] },
      { model_name = "meta-llama/Llama-4-Scout-17B-16E-Instruct", hidden_size = 5120, inter_size = 8192, topk = 1, num_experts = 16, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "meta-llama/Llama-4-Maverick-17B-128E-Instruct", hidden_size = 5120, inter_size = 8192, topk = 1, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "XiaomiMiMo/MiMo-V2-Flash", hidden_size = 4096, inter_size = 2048, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "MiniMaxAI/MiniMax-M2.5", hidden_size = 3072, inter_size = 1536, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["fp8_block"] },
      { model_name = "nvidia/MiniMax-M2.5-NVFP4", hidden_size = 3072, inter_size = 1536, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "MiniMaxAI/MiniMax-M3", hidden_size = 6144, inter_size = 3072, topk = 4, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["bfloat16"] },
      { model_name = "nvidia/MiniMax-M3-NVFP4", hidden_size = 6144, inter_size = 3072, topk = 4, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "mistralai/Mixtral-8x7B-v0.1", hidden_size = 4096, inter_size = 14336, topk = 2, num_experts = 8, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "mistralai/Mixtral-8x22B-v0.1", hidden_size = 6144, inter_size = 16384, topk = 2, num_experts = 8, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", hidden_size = 2688, inter_size = 1856, topk = 6, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["bfloat16"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", hidden_size = 2688, inter_size = 1856, topk = 6, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", hidden_size = 2688, inter_size = 1856, topk = 6, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", hidden_size = 4096, inter_size = 2688, topk = 22, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", hidden_size = 1024, inter_size = 2688, topk = 22, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", hidden_size = 1024, inter_size = 2688, topk = 22, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", hidden_size = 8192, inter_size = 5120, topk = 22, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["bfloat16"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", hidden_size = 2048, inter_size = 5120, topk = 22, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["bfloat16"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8", hidden_size = 8192, inter_size = 5120, topk = 22, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["fp8"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8", hidden_size = 2048, inter_size = 5120, topk = 22, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["fp8"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4", hidden_size = 8192, inter_size = 5120, topk = 22, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4", hidden_size = 2048, inter_size = 5120, topk = 22, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "Qwen/Qwen3-30B-A3B", hidden_size = 2048, inter_size = 768, topk = 8, num_experts = 128, max_tp_exclusive = 8, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "Qwen/Qwen3-235B-A22B", hidden_size = 4096, inter_size = 1536, topk = 8, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "Qwen/Qwen3-Coder-480B-A35B-Instruct", hidden_size = 6144, inter_size = 2560, topk = 8, num_experts = 160, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "Qwen/Qwen3-VL-30B-A3B-Instruct", hidden_size = 2048, inter_size = 768, topk = 8, num_experts = 128, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "Qwen/Qwen3.5-35B-A3B", hidden_size = 2048, inter_size = 512, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "Qwen/Qwen3.5-122B-A10B", hidden_size = 3072, inter_size = 1024, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "Qwen/Qwen3.5-397B-A17B", hidden_size = 4096, inter_size = 1024, topk = 10, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "nvidia/Qwen3.6-35B-A3B-NVFP4", hidden_size = 2048, inter_size = 512, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = [] },
      { model_name = "nvidia/Qwen3.5-122B-A10B-NVFP4", hidden_size = 3072, inter_size = 1024, topk = 8, num_experts = 256, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "nvidia/Qwen3.5-397B-A17B-NVFP4", hidden_size = 4096, inter_size = 1024, topk = 10, num_experts = 512, max_tp_exclusive = null, allowed_dtypes = ["nvfp4"] },
      { model_name = "stepfun-ai/Step-3.7-Flash-FP8", hidden_size = 4096, inter_size = 1280, topk = 8, num_experts = 288, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
      { model_name = "stepfun-ai/Step-3.7-Flash", hidden_size = 4096, inter_size = 1280, topk = 8, num_experts = 288, max_tp_exclusive = null, allowed_dtypes = ["bfloat16", "fp8", "fp8_block", "nvfp4"] },
    ]
  }
  rows "dtype" {
    values = [
      { moe_dtype = "bfloat16", min_sm = 0, max_sm = 9999 },
      { moe_dtype = "fp8", min_sm = 87, max_sm = 9999 },
      { moe_dtype = "fp8_block", min_sm = 90, max_sm = 9999 },
      { moe_dtype = "int4_wo", min_sm = 100, max_sm = 9999 },
      { moe_dtype = "nvfp4", min_sm = 100, max_sm = 9999 },
      { moe_dtype = "w4a16_mxfp4", min_sm = 90, max_sm = 119 },
      { moe_dtype = "w4a8_mxfp4_mxfp8", min_sm = 100, max_sm = 9999 },
    ]
  }
  rows "distribution" {
    values = [
      { distribution = "balanced", routing = "balanced", power_law_alpha = 0.0 },
      { distribution = "power_law_1.01", routing = "power_law", power_law_alpha = 1.01 },
      { distribution = "power_law_1.2", routing = "power_law", power_law_alpha = 1.2 },
    ]
  }
  axis "moe_tp_size" {
    values = [1, 2, 4, 8, 16, 32]
  }
  axis "moe_ep_size" {
    values = [1, 2, 4, 8, 16, 32, 64, 128, 256]
  }
  axis "min_latency_mode" {
    values = [false, true]
  }
  filter "sm_gate" {
    keep   = (system.h200_sxm.sm_version >= min_sm) && (system.h200_sxm.sm_version <= max_sm)
    reason = "the GPU has no such kernel"
  }
  filter "dtype_allowed" {
    keep   = contains(allowed_dtypes, moe_dtype)
    reason = "the model is not published in this format"
  }
  filter "tp_limit" {
    keep   = (max_tp_exclusive == null) || (moe_tp_size < max_tp_exclusive)
    reason = "the model does not run with this tensor parallel size"
  }
  filter "gpus" {
    keep   = contains([1, 2, 4, 8, 16, 32, 64, 128, 256], moe_tp_size * moe_ep_size)
    reason = "no such number of GPUs"
  }
  filter "ep_le_experts" {
    keep   = moe_ep_size <= num_experts
    reason = "more ranks than experts"
  }
  filter "ep_divides" {
    keep   = (num_experts % moe_ep_size) == 0
    reason = "experts must divide over the ranks"
  }
  filter "tp_divides" {
    keep   = (inter_size % moe_tp_size) == 0
    reason = "the intermediate size must divide"
  }
  filter "min_latency" {
    keep   = (min_latency_mode == false) || ((moe_dtype == "nvfp4") && (system.h200_sxm.sm_version == 100) && (num_experts <= 256))
    reason = "the low latency kernel is for nvfp4 on SM100"
  }
}
distinct {
  by     = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "min_latency_mode"]
  prefer = "first"
}
sweep "num_tokens" {
  values = [1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384]
}
