"""One task sweeps all token counts and then ends the process."""

__compat__ = "trtllm>=1.3.0rc20"

import os
import sys

from collector.case_generator import token_counts
from collector.helper import EXIT_CODE_RESTART, balanced_logits, benchmark_with_power, log_perf


def get_moe_test_cases():
    return [["bfloat16", token_counts(), 64, 32, 2, 8, 1, 1, False, "some/model", "balanced", 0.0]]


def run_moe_torch(
    moe_type, num_tokens_lists, hidden_size, inter_size, topk, num_experts, moe_tp_size, moe_ep_size, min_latency_mode,
    model_name, distributed="power_law", power_law_alpha=0.0, *, perf_filename, device="cuda:0",
):
    for num_tokens in num_tokens_lists:
        counts = balanced_logits(num_tokens, num_experts, topk)
        with benchmark_with_power(device, lambda: sum(counts), num_warmups=1, num_runs=1, allow_graph_fail=True) as results:
            pass
        log_perf(
            item_list=[
                {
                    "moe_dtype": moe_type, "num_tokens": num_tokens, "hidden_size": hidden_size, "inter_size": inter_size,
                    "topk": topk, "num_experts": num_experts, "moe_tp_size": moe_tp_size, "moe_ep_size": moe_ep_size,
                    "distribution": "balanced" if distributed == "balanced" else "power_law_%s" % power_law_alpha,
                    "latency": results["latency_ms"],
                }
            ],
            framework="TRTLLM", version="1.2.0", device_name="x", op_name="moe", kernel_source="moe_torch_flow",
            perf_filename=perf_filename,
        )
    if os.environ.get("TRTLLM_MOE_RESTART_WORKER", "1") == "1":
        sys.exit(EXIT_CODE_RESTART)
