# Nemotron 3 and Nemotron-H: Mamba-2 layers, few attention layers, experts that are not gated. Super and Ultra run their
# experts on a smaller latent width as well as on the full one.

locals {
  nemotron = {
    architecture = "NemotronHForCausalLM"

    # TensorRT-LLM and vLLM cover these heads with the default grid.
    attention = [
      { profile = "nemotron_h_nano", models = ["nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"], num_heads = 32, num_kv_heads = 2, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32], only = ["sglang"] },
      { profile = "nemotron_h_super", models = ["nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"], num_heads = 32, num_kv_heads = 2, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32], only = ["sglang"] },
      { profile = "nemotron_h_ultra", models = ["nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8", "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4"], num_heads = 64, num_kv_heads = 2, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32, 64], only = ["sglang"] },
      { profile = "nemotron_h_56b", models = ["nvidia/Nemotron-H-56B-Base-8K"], num_heads = 64, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16, 32, 64], only = ["sglang"] },
    ]

    # vLLM takes neither the NVFP4 checkpoints of Super and Ultra nor Ultra's
    # full width; SGLang does not take Ultra's FP8 checkpoint.
    moe = [
      { model_name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", hidden_size = 2688, inter_size = 1856, topk = 6, num_experts = 128, dtypes = ["bfloat16"], router = local.routers.nemotron_nano },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", hidden_size = 2688, inter_size = 1856, topk = 6, num_experts = 128, dtypes = ["nvfp4"], router = local.routers.nemotron_nano },
      { model_name = "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", hidden_size = 2688, inter_size = 1856, topk = 6, num_experts = 128, dtypes = ["nvfp4"], router = local.routers.nemotron_nano },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", hidden_size = 4096, inter_size = 2688, topk = 22, num_experts = 512, dtypes = { trtllm = ["nvfp4"], vllm = [], sglang = ["nvfp4"] }, router = local.routers.nemotron_super },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", hidden_size = 1024, inter_size = 2688, topk = 22, num_experts = 512, dtypes = { trtllm = ["nvfp4"], vllm = [], sglang = ["nvfp4"] }, router = local.routers.nemotron_super },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", hidden_size = 1024, inter_size = 2688, topk = 22, num_experts = 512, dtypes = merge(local.any_dtype, { vllm = ["fp8"] }) },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", hidden_size = 8192, inter_size = 5120, topk = 22, num_experts = 512, dtypes = { trtllm = ["bfloat16"], vllm = [], sglang = ["bfloat16"] }, router = local.routers.nemotron_super },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", hidden_size = 2048, inter_size = 5120, topk = 22, num_experts = 512, dtypes = ["bfloat16"], router = local.routers.nemotron_super },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8", hidden_size = 8192, inter_size = 5120, topk = 22, num_experts = 512, dtypes = { trtllm = ["fp8"], vllm = [], sglang = [] } },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8", hidden_size = 2048, inter_size = 5120, topk = 22, num_experts = 512, dtypes = { trtllm = ["fp8"], vllm = ["fp8"], sglang = [] } },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4", hidden_size = 8192, inter_size = 5120, topk = 22, num_experts = 512, dtypes = { trtllm = ["nvfp4"], vllm = [], sglang = ["nvfp4"] }, router = local.routers.nemotron_super },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4", hidden_size = 2048, inter_size = 5120, topk = 22, num_experts = 512, dtypes = { trtllm = ["nvfp4"], vllm = [], sglang = ["nvfp4"] }, router = local.routers.nemotron_super },
    ]

    mamba2 = [
      { model_name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", models = ["nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"], d_model = 2688, d_state = 128, d_conv = 4, nheads = 64, head_dim = 64, n_groups = 8, chunk_size = 128 },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", models = ["nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"], d_model = 4096, d_state = 128, d_conv = 4, nheads = 128, head_dim = 64, n_groups = 8, chunk_size = 128 },
      { model_name = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4", models = ["nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8", "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4"], d_model = 8192, d_state = 128, d_conv = 4, nheads = 256, head_dim = 64, n_groups = 8, chunk_size = 128 },
      { model_name = "nvidia/Nemotron-H-56B-Base-8K", d_model = 8192, d_state = 256, d_conv = 4, nheads = 256, head_dim = 64, n_groups = 8, chunk_size = 128 },
    ]
  }
}
