package trace

import (
	"testing"
)

func TestRules(t *testing.T) {
	t.Parallel()
	r := DefaultRules()
	for kind, names := range map[string][]string{
		"all_reduce": {
			"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
			"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
			"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(x)",
			"_ZN4vllm26cross_device_reduce_2stageIfLi8EEEvx",
			"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(x)",
			"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<x>",
			"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
			"ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
			"ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs4K)",
			"ncclKernelAllReduceCtranDirect<float>",
			"void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, ...)",
			"void sglang::cross_device_reduce_1stage<__half, 2>(x)",
			"void aiter::cross_device_reduce_1stage_naive<x>",
			"void c10d::symmetric_memory::(anonymous namespace)::one_shot_all_reduce_kernel<float, 16, 8, false>(float**)",
			"void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16>",
			"void multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>",
			"void multimem_all_reduce_kernel<c10::BFloat16, 16>",
			"allreduce_two_shot_multimem_intra_node_kernel",
			"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(X)1, __nv_bfloat16>",
			"void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, __nv_bfloat16>",
			"void tensorrt_llm::kernels::mnnvl::oneshotAllreduceFusionKernel<8>",
			"void tensorrt_llm::kernels::mnnvl::twoshot_allreduce_kernel<8>",
			"oneshotAllreduceFusionKernel",
			"void tensorrt_llm::kernels::ar_fusion::moe::moereduce_allreduce_fusion_kernel_oneshot_lamport<x>",
			"void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 2>",
			"userbuffers_fp16_sum_inplace_gpu_mc",
			"void mscclpp::allreduce7<float>",
			"void quickreduce::allreduce_prototype_twoshot<x>",
		},
		"all_gather": {
			"ncclSymkDevKernel_AllGather_ST(x)",
			"ncclAllGatherRingLLKernel_copy_i8(ncclColl)",
			"ncclSymDevKernel_AllGather_LLMC",
			"void multimem_all_gather_kernel<16>",
			"userbuffers_fp16_sum_inplace_gpu_mc_ag",
		},
		"reduce_scatter": {
			"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)",
			"ncclReduceScatterRingLLKernel_sum_f32(ncclColl)",
			"ncclSymkDevKernel_ReduceScatter_RailA2A_LsaLD_sum_bf16",
			"userbuffers_fp16_sum_inplace_gpu_mc_rs",
		},
		"broadcast": {
			"ncclBroadcastRingLLKernel_copy_i8(ncclColl)",
		},
		"reduce": {
			"ncclDevKernel_Reduce_RING_LL(x)",
			"ncclReduceRingLLKernel_sum_f32(ncclColl)",
		},
		"alltoall": {
			"void tensorrt_llm::kernels::fusedMoeCommKernel<x>(y)",
			"fusedMoeCommKernel(x)",
			"ncclSymkDevKernel_AlltoAll_LL",
			"void tensorrt_llm::kernels::moeAllToAllKernel<true>",
		},
		"send_recv": {
			"void deep_ep::elastic::pp_send_impl<1>(ncclDevComm const)",
			"void deep_ep::elastic::pp_recv_impl<1>(ncclDevComm const)",
			"ncclDevKernel_SendRecv(x)",
			"ncclSendRecvKernel_copy_i8(ncclColl)",
			"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
			"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
			"kuserbuffers_pushsendrecv",
		},
		"dispatch": {
			"void deep_ep::elastic::dispatch_impl<true, 1, 8>(void*, int*)",
			"void deep_ep::elastic::hybrid_dispatch_impl<true, 8>(void*)",
			"void nccl_ep::dispatch_ll<x>(y)",
			"ncclEpDispatchKernel(x)",
			"void deep_ep::intranode::dispatch<8, 768, 8192>(x)",
			"void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>",
			"void deep_ep::intranode::dispatch<4, 768, 8192>(x)",
			"void hybrid_ep::dispatch_kernel<x>",
			"mori::moe::EpDispatchIntraNodeKernel",
			"a2a_dispatch_send_kernel",
		},
		"combine": {
			"void deep_ep::elastic::combine_impl<true, 8>(__nv_bfloat16*, float*)",
			"void deep_ep::elastic::hybrid_combine_impl<true, 8>(__nv_bfloat16*)",
			"void mori::moe::EpCombineAll<x>(y)",
			"void deep_ep::internode_ll::combine<true>(x)",
			"void tensorrt_llm::kernels::moe_comm::moeA2ACombineKernel<8>",
			"void deep_ep::internode_ll::combine<false, 7168, 9>(x)",
			"void hybrid_ep::combine_kernel<x>",
			"mori::moe::EpCombineInterNodeV1Kernel",
			"a2a_combine_recv_kernel",
		},
		"nvshmem": {
			"nvshmemi_barrier_all",
		},
		"nccl": {
			"ncclDevKernel_Generic(x)",
			"ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
			"_Z23ncclDevKernel_Generic_424ncclDevKernelArgsStorageILm4096EE",
		},
		"rccl": {
			"rcclGenericKernel",
			"mscclKernel_Sum_half_Simple_false",
		},
		"notify": {
			"void deep_ep::intranode::cached_notify_combine<8>(x)",
			"void deep_ep::intranode::cached_notify_combine<4>(x)",
			"void deep_ep::internode::notify_dispatch<false, 4>",
			"void deep_ep::internode::cached_notify<false>(int, int)",
			"void dpsk::ep::internode::cached_notify<false>(int, int, int)",
		},
		"barrier": {
			"void deep_ep::elastic::barrier_impl<true, 1>(ncclDevComm const)",
			"void deep_ep::intranode::barrier<8>(int**, int)",
			"void deep_ep::internode_ll::clean_low_latency_buffer<1024>(int*, int)",
			"void c10d::barrier_kernel(unsigned int**)",
			"void c10d::symmetric_memory::(anonymous namespace)::barrier_kernel(unsigned int**)",
			"void nvshmemi_collectives::barrier_on_stream_kernel<x>(y)",
			"barrier_on_stream_kernel_threadgroup(int)",
		},
		"dispatch_epilogue": {"void deep_ep::elastic::dispatch_copy_epilogue_impl<1>(void*)"},
		"combine_epilogue":  {"void deep_ep::elastic::combine_reduce_epilogue_impl<1>(__nv_bfloat16*)"},
		"fetch":             {"void deep_ep::elastic::engram_fetch_impl<1>(ncclDevComm const)"},
		"compute": {
			"void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
			"void deep_ep::internode::get_dispatch_layout<256, 32, 8>(long const*)",
			"void hybrid_ep::scan<x>(y)",
			"void aiter::local_device_load_rmsnorm<x>(y)",
			"void at::native::reduce_kernel<512, 1, x>(x)",
			"void vectorized_gather_kernel<16, long>(x)",
			"void moe::finalize(x)",
			"nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT",
			"splitKreduce_kernel",
			"moeA2APrepareDispatchKernel",
			"triton_poi_fused__to_copy_all_reduce_add_3",
			"triton_red_fused_wait_tensor_add_0",
			"void at::native::reduce_kernel<512, 1, x>",
			"void at::native::vectorized_gather_kernel<16, long>",
			"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<x>",
			"void tensorrt_llm::kernels::moe::finalizeMoeRoutingKernel",
			"splitKreduce_kernel<32, 16>",
			"void cub::DeviceReduceKernel<x>",
			"void softmax_kernel<BlockAllReduce<SumOp>, 4>",
			"void LayerNormWarpImpl<WarpAllReduce>",
			"gemm_allreduce_kernel_sm100",
			"void deep_gemm::sm90_fp8_gemm_1d2d_impl",
			"dispatch_topk_sort_kernel",
			"void splitKV_combine_kernel",
			"void flash::flash_fwd_splitkv_combine_kernel<x>",
			"parallel_gather_kernel",
		},
	} {
		for _, name := range names {
			got := Compute
			if i := r.match(name); i >= 0 {
				got = r[i].Kind
			}
			if got != kind {
				t.Errorf("%s: %s, want %s", name, got, kind)
			}
		}
	}
}
