"""Cases that carry the name of their perf file, and a phase, in a positional list."""

from helper import benchmark_with_power, log_perf

GLOBAL_HEADS = 128


def get_context_dsa_test_cases():
    return [[s, b, tp, True, "dsa_context_perf.txt"] for tp in (1, 8) for b in (1, 2) for s in (64, 128)]


def get_generation_dsa_test_cases():
    return [[s, b, tp, False, "dsa_generation_perf.txt"] for tp in (1, 8) for b in (1, 2) for s in (64, 128)]


def run_dsa(seq_len, batch_size, tp_size, is_context, perf_filename, device="cuda:0"):
    """One rank of tp_size, on one device: it has its share of the heads."""
    heads = GLOBAL_HEADS // tp_size
    work = heads * batch_size * (seq_len if is_context else 1)

    def kernel_func():
        return sum(range(work))

    with benchmark_with_power(device, kernel_func, num_warmups=5, num_runs=6, repeat_n=1, allow_graph_fail=True) as res:
        pass
    print("measured", repr(float(res["latency_ms"])), flush=True)
    log_perf(
        item_list=[{"num_heads": heads, "batch_size": batch_size, "isl": seq_len if is_context else 1, "step": 0 if is_context else seq_len, "tp_size": tp_size, "latency": f"{res['latency_ms']:.4f}"}],
        framework="TRTLLM", version="1.3.0rc20", device_name="x", op_name="dsa_context" if is_context else "dsa_generation",
        kernel_source="default", perf_filename=perf_filename, power_stats=res["power_stats"],
    )
