op = "gemm"
perf_table = "gemm_perf"
columns = ["gemm_dtype", "m", "n", "k"]
case_set "base" {
  axis "n" {
    values = [32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 16384, 51200, 65536]
  }
  axis "k" {
    values = [32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 16384, 51200, 65536]
  }
  filter "skip_largest_square" {
    keep   = (n * k) != 4294967296
    reason = "65536 x 65536 weights are left out"
  }
}
case_set "model_widths" {
  rows "width" {
    values = [
      { n = 4, k = 1024, from_model = "Qwen/Qwen3.5-0.8B" },
      { n = 8, k = 1024, from_model = "Qwen/Qwen3.5-0.8B" },
      { n = 16, k = 1024, from_model = "Qwen/Qwen3.5-0.8B" },
      { n = 4, k = 2048, from_model = "Qwen/Qwen3.5-2B" },
      { n = 8, k = 2048, from_model = "Qwen/Qwen3.5-2B" },
      { n = 16, k = 2048, from_model = "Qwen/Qwen3.5-2B" },
      { n = 4, k = 2560, from_model = "Qwen/Qwen3.5-4B" },
      { n = 8, k = 2560, from_model = "Qwen/Qwen3.5-4B" },
      { n = 16, k = 2560, from_model = "Qwen/Qwen3.5-4B" },
      { n = 4, k = 4096, from_model = "Qwen/Qwen3.5-9B" },
      { n = 8, k = 4096, from_model = "Qwen/Qwen3.5-9B" },
      { n = 16, k = 4096, from_model = "Qwen/Qwen3.5-9B" },
      { n = 12, k = 5120, from_model = "Qwen/Qwen3.5-27B" },
      { n = 24, k = 5120, from_model = "Qwen/Qwen3.5-27B" },
      { n = 48, k = 5120, from_model = "Qwen/Qwen3.5-27B" },
      { n = 96, k = 5120, from_model = "Qwen/Qwen3.5-27B" },
      { n = 1, k = 2048, from_model = "Qwen/Qwen3.5-35B-A3B" },
      { n = 4, k = 2048, from_model = "Qwen/Qwen3.5-35B-A3B" },
      { n = 8, k = 2048, from_model = "Qwen/Qwen3.5-35B-A3B" },
      { n = 16, k = 2048, from_model = "Qwen/Qwen3.5-35B-A3B" },
      { n = 1, k = 3072, from_model = "Qwen/Qwen3.5-122B-A10B" },
      { n = 8, k = 3072, from_model = "Qwen/Qwen3.5-122B-A10B" },
      { n = 16, k = 3072, from_model = "Qwen/Qwen3.5-122B-A10B" },
      { n = 1, k = 4096, from_model = "Qwen/Qwen3.5-397B-A17B" },
      { n = 8, k = 4096, from_model = "Qwen/Qwen3.5-397B-A17B" },
      { n = 16, k = 4096, from_model = "Qwen/Qwen3.5-397B-A17B" },
    ]
  }
}
rows "dtype" {
  values = [
    { gemm_dtype = "bfloat16", min_sm = 0, max_sm = 9999 },
    { gemm_dtype = "fp8", min_sm = 87, max_sm = 9999 },
    { gemm_dtype = "fp8_block", min_sm = 87, max_sm = 9999 },
    { gemm_dtype = "nvfp4", min_sm = 100, max_sm = 9999 },
  ]
}
axis "m" {
  values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32, 33, 48, 49, 64, 65, 80, 81, 96, 97, 112, 113, 128, 129, 160, 161, 192, 193, 224, 225, 256, 257, 512, 513, 768, 769, 1024, 1025, 1280, 1281, 1536, 1537, 1792, 1793, 2048, 2049, 2304, 2305, 2560, 2561, 2816, 2817, 3072, 3073, 3328, 3329, 3584, 3585, 3840, 3841, 4096, 4097, 4352, 4353, 8192, 16384, 32768]
}
filter "sm_gate" {
  keep   = (system.h200_sxm.sm_version >= min_sm) && (system.h200_sxm.sm_version <= max_sm)
  reason = "the GPU has no such kernel"
}
filter "block_min_128" {
  keep   = !((contains(["fp8_block", "nvfp4"], gemm_dtype)) && ((n < 128) || (k < 128)))
  reason = "block formats need widths of at least 128"
}
filter "block_weight_elems" {
  keep   = !((gemm_dtype == "fp8_block") && ((n * k) >= 2147483648))
  reason = "block scales are indexed with 32 bits"
}
filter "output_elems" {
  keep   = (m * n) < 2147483648
  reason = "the output is indexed with 32 bits"
}
filter "input_elems" {
  keep   = (m * k) < 2147483648
  reason = "the input is indexed with 32 bits"
}
distinct {
  by     = ["gemm_dtype", "m", "n", "k"]
  prefer = "first"
}
