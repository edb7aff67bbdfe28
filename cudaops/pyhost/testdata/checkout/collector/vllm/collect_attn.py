"""State set at import, and a function wrapped in an exit stack."""

__compat__ = "vllm==0.24.0"

import functools
import os
from contextlib import ExitStack

from collector.helper import benchmark_with_power, log_perf

os.environ["VLLM_STANDIN_STATE"] = "set at import"


def with_exit_stack(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        with ExitStack() as stack:
            return func(stack, *args, **kwargs)

    return wrapper


@with_exit_stack
def run_attention_torch(
    exit_stack, batch_size, input_len, num_heads, num_kv_heads, head_dim, use_fp8_kv_cache, is_context_phase, window_size=0,
    *, perf_filename, device="cuda:0",
):
    assert use_fp8_kv_cache in (True, False) and os.environ["VLLM_STANDIN_STATE"]
    with benchmark_with_power(device=device, kernel_func=lambda: None, num_warmups=3, num_runs=6, repeat_n=1, allow_graph_fail=True) as results:
        pass
    log_perf(
        item_list=[
            {
                "batch_size": batch_size, "isl": input_len if is_context_phase else 1, "num_heads": num_heads,
                "num_key_value_heads": num_kv_heads, "head_dim": head_dim, "beam_width": 1, "attn_dtype": "bfloat16",
                "kv_cache_dtype": "fp8" if use_fp8_kv_cache else "bfloat16", "step": 0 if is_context_phase else input_len,
                "window_size": window_size, "latency": results["latency_ms"],
            }
        ],
        framework="VLLM", version="0.24.0", device_name="x", op_name="context_attention" if is_context_phase else "generation_attention",
        kernel_source="vllm_flash_attn", perf_filename=perf_filename, power_stats=results["power_stats"],
    )
