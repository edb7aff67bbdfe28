package systems

// Peak returns the GPU's dense tensor throughput in FLOP/s for a dtype, named as in perf tables. ok
// is false if the GPU does not support the dtype or the spec has no value for it. Weight-only
// formats multiply in bfloat16.
func (s *Spec) Peak(dtype string) (flops float64, ok bool) {
	switch dtype {
	case "bfloat16", "float16", "half", "int4_wo", "int8_wo", "nvfp4_wo", "w4a16_mxfp4", "w4a16_mxfp4_cutlass",
		"w4a16_mxfp4_humming", "w4a16_nvfp4":
		flops = s.GPU.BFloat16Flops
	case "int8", "sq":
		flops = s.GPU.Int8Flops
	case "fp8", "fp8_static", "fp8_block", "fp8_ootb", "fp8_e4m3", "w4afp8", "w4a8_mxfp4_mxfp8",
		"w4a8_mxfp4_mxfp8_trtllm":
		flops = s.GPU.FP8Flops
	case "nvfp4", "fp4":
		flops = s.GPU.FP4Flops
	case "float32":
		flops = s.GPU.Float32Flops
	}
	return flops, flops > 0
}

// ComputeSeconds returns the minimum time in seconds for flops operations in a dtype. ok is false
// if there is no peak for the dtype.
func (s *Spec) ComputeSeconds(flops float64, dtype string) (seconds float64, ok bool) {
	peak, ok := s.Peak(dtype)
	if !ok {
		return 0, false
	}
	return flops / peak, true
}

// MemorySeconds returns the minimum time in seconds to move the given number of bytes through
// device memory at peak bandwidth.
func (s *Spec) MemorySeconds(bytes float64) float64 {
	if s.GPU.MemBW <= 0 {
		return 0
	}
	return bytes / s.GPU.MemBW
}
