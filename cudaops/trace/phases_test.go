package trace

import (
	"fmt"
	"strings"
	"testing"
)

// step is a vLLM step as projected onto the device by the profiler.
func step(name string, ts, dur float64) string {
	return fmt.Sprintf(`{"ph":"X","cat":"gpu_user_annotation","name":%q,"pid":0,"tid":7,"ts":%.3f,"dur":%.3f}`, name, ts,
		dur)
}

func TestPhases(t *testing.T) {
	t.Parallel()
	events := []string{
		step("execute_context_8(8192)_generation_0(0)", 100, 50),
		event("nvjet_tst_256x128_64x4", 100, 20, 0),
		event("void cutlass::device_kernel<flash::FlashAttnFwdSm90>", 120, 10, 0),
		event("triton_red_fused_add_rms_norm_0", 131, 5, 0),
		event("sampling_kernel", 150, 2, 0), // after the step, but part of it
		step("execute_context_0(0)_generation_8(8)", 160, 20),
		event("nvjet_tst_64x8", 160, 4, 0),
		event("void vllm::reshape_and_cache_flash_kernel<...>", 164, 1, 0),
		event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 165, 3, 0),
		step("execute_context_0(0)_generation_8(8)", 180, 20),
		event("nvjet_tst_64x8", 180, 4, 0),
		event("triton_poi_fused_mul_silu_1", 182, 4, 0),
	}
	trace := func(events ...string) string { return `{"traceEvents":[` + strings.Join(events, ",") + `]}` }
	got := read(t, trace(events...))[0].Phases
	text := func(phases []Phase) string {
		var b strings.Builder
		for _, p := range phases {
			fmt.Fprintf(&b, "%s of %d: wall %d, busy %d:", p.Name, p.Steps, p.WallNs, p.BusyNs)
			for _, c := range p.Classes {
				fmt.Fprintf(&b, " %s %d/%d", c.Class, c.SumNs, c.Count)
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	want := "prefill of 1: wall 52000, busy 37000: gemm 20000/1 attention 10000/1 other 7000/2\n" +
		"decode of 2: wall 26000, busy 14000: gemm 8000/2 other 4000/1 communication 3000/1 attention 1000/1\n"
	if text(got) != want {
		t.Errorf("got\n%swant\n%s", text(got), want)
	}
	// A step without requests has no effect.
	idle := append(append([]string{}, events...), step("execute_context_0(0)_generation_0(0)", 190, 1))
	if got := read(t, trace(idle...))[0].Phases; text(got) != want {
		t.Errorf("with an idle step: %s", text(got))
	}
	// Phases that cannot be distinguished are omitted.
	for name, more := range map[string]string{
		"a prefill among decodes": step("execute_context_1(8)_generation_8(8)", 200, 5),
		"steps without phases":    step("execute_context_", 200, 5),
	} {
		all := append(append([]string{}, events...), more, event("nvjet", 200, 5, 0))
		if got := read(t, trace(all...))[0].Phases; got != nil {
			t.Errorf("%s: %s", name, text(got))
		}
	}
	if got := read(t, trace(event("nvjet", 0, 1, 0)))[0].Phases; got != nil {
		t.Errorf("no steps: %s", text(got))
	}
}

// TestClasses uses kernel names of real engines.
func TestClasses(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>":                           ClassOther,
		"kernel_cutlass_kernel_flashinfernormkernelsrmsnormRMSNormKernel_object_at__tensorptrbf16":  ClassOther,
		"void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>":                     ClassOther,
		"void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>":                          ClassOther,
		"void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheEnhancedParallelismKernel<true, 128u>": ClassOther,
		"void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits>":             ClassAttention,
		"void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla>":                            ClassAttention,
		"void flash::prepare_varlen_num_blocks_kernel<1, false>":                                    ClassAttention,
		"fused_moe_kernel": ClassGEMM,
		"bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2":                                           ClassGEMM,
		"void marlin::Marlin<__nv_bfloat16, 256>":                                                ClassGEMM,
		"void moe::dev::routing::routingIndicesHistogramKernel<moe::dev::routing::KernelParams>": ClassOther,
		"void vllm::moe::topkGatingSoftmax<4, 128>":                                              ClassOther,
	} {
		if got := classOf(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
