"""Cases with enums of the framework; a print at import."""

__compat__ = "trtllm>=1.3.0rc20"

import tensorrt_llm

from helper import benchmark_with_power, get_sm_version, log_perf

print("collect_mla imported for sm", get_sm_version())
_NAMES = {"BF16": "bfloat16", "FP8": "fp8"}


def get_context_mla_test_cases():
    cases = []
    for dtype in (tensorrt_llm.bindings.DataType.BF16, tensorrt_llm.bindings.DataType.FP8):
        for tp in (1, 2, 4):
            for s in (16, 32):
                cases.append([s, 1, 1, dtype, 128, tp, tp, 64, 10, 6, True])
    return cases


def run_mla(
    input_len, batch_size, output_len, kv_cache_dtype, num_heads, world_size, tp_size, tokens_per_block, warming_up,
    test_ite, is_context_phase, *, perf_filename, device="cuda:0",
):
    assert kv_cache_dtype in (tensorrt_llm.bindings.DataType.BF16, tensorrt_llm.bindings.DataType.FP8)
    with benchmark_with_power(device=device, kernel_func=lambda: sum(range(50)), num_warmups=warming_up, num_runs=test_ite, allow_graph_fail=True) as results:
        latency = results["latency_ms"]
    return log_perf(
        item_list=[
            {
                "mla_dtype": "bfloat16", "kv_cache_dtype": _NAMES[kv_cache_dtype.name], "num_heads": num_heads // tp_size,
                "batch_size": batch_size, "isl": input_len, "tp_size": tp_size, "step": 0, "latency": latency,
            }
        ],
        framework="TRTLLM", version=tensorrt_llm.__version__, device_name=str(device), op_name="mla_context",
        kernel_source="default", perf_filename=perf_filename, power_stats=results["power_stats"],
    )
