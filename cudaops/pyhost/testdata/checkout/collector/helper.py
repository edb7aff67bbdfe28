"""The test checkout's own helper: the names that its collectors import.

Only the two functions that time and log are replaced by the worker host; the
rest of this file is used as it is."""

import csv
import os

EXIT_CODE_RESTART = 10


class WorkerRestartSignal:
    pass


WORKER_RESTART = WorkerRestartSignal()


def benchmark_with_power(*args, **kwargs):
    raise AssertionError("the worker host measures")


def log_perf(item_list, framework, version, device_name, op_name, kernel_source, perf_filename, power_stats=None):
    """Appends to the perf file: what happens in a process without the host's helper."""
    head = {"framework": framework, "version": version, "device": device_name, "op_name": op_name, "kernel_source": kernel_source}
    rows = [dict(head, **item) for item in item_list]
    new = not os.path.exists(perf_filename)
    with open(perf_filename, "a", newline="") as f:
        writer = csv.DictWriter(f, list(rows[0]))
        if new:
            writer.writeheader()
        writer.writerows(rows)
    return True


def get_sm_version():
    return 90


def balanced_logits(num_tokens, num_experts, topk):
    """Counts of tokens per expert, as even as they can be."""
    counts = [0] * num_experts
    for i in range(num_tokens * topk):
        counts[i % num_experts] += 1
    return counts
