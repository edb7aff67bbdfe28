"""A sweep that logs what works, two kernels a point, and raises at its end."""

from collector.helper import benchmark_with_power, log_perf

HEADS = 48


def get_kda_test_cases():
    points = [1, 2, 4, 8], [16, 64]
    return [["context", HEADS, *points, "Kimi"], ["generation", HEADS, [1, 2, 4, 8], [1], "Kimi"]]


def _log(row, kernel, latency, perf_filename):
    if not log_perf(
        item_list=[{**row, "latency": f"{latency:.6f}"}], framework="VLLM", version="0.24.0+cu130", device_name="x",
        op_name="kda", kernel_source=kernel, perf_filename=perf_filename,
    ):
        raise RuntimeError("not written")


def run_kda_torch(phase, num_k_heads, batch_size_list, seq_len_list, model_name, *, perf_filename, device="cuda:0"):
    ok, failures = 0, []
    for batch_size in batch_size_list:
        for seq_len in seq_len_list:
            row = {"phase": phase, "batch_size": batch_size, "seq_len": seq_len, "num_k_heads": num_k_heads, "model_name": model_name}
            try:
                if batch_size * seq_len >= 256:
                    raise ValueError("int32 token-offset overflow guard")
                with benchmark_with_power(device, lambda: None, allow_graph_fail=True) as results:
                    _log(row, "causal_conv1d", results["latency_ms"], perf_filename)
                if batch_size * seq_len == 128:
                    raise ValueError("the recurrent kernel has no such shape")
                with benchmark_with_power(device, lambda: None, allow_graph_fail=True) as results:
                    _log(row, "recurrent", results["latency_ms"], perf_filename)
                ok += 1
            except ValueError as err:
                failures.append("batch_size=%d seq_len=%d: %s" % (batch_size, seq_len, err))
    if failures:
        raise RuntimeError("KDA %s failed strict completeness: ok=%d error=%d: %s" % (phase, ok, len(failures), "; ".join(failures)))


def run_kda_child(phase, num_k_heads, batch_size_list, seq_len_list, model_name, *, perf_filename, device="cuda:0"):
    """The same in a forked child, which dies of it."""
    import os

    pid = os.fork()
    if pid == 0:
        try:
            run_kda_torch(phase, num_k_heads, batch_size_list, seq_len_list, model_name, perf_filename=perf_filename, device=device)
        except RuntimeError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("the child failed")


def run_kda_torn(phase, num_k_heads, batch_size_list, seq_len_list, model_name, *, perf_filename, device="cuda:0"):
    """Writes the perf file itself; lines of two points are torn."""
    with open(perf_filename, "w") as f:
        f.write("framework,version,device,op_name,kernel_source,phase,batch_size,seq_len,num_k_heads,model_name,latency\n")
        for batch_size in batch_size_list:
            for seq_len in seq_len_list:
                line = f"VLLM,0.24.0,x,kda,k,{phase},{batch_size},{seq_len},{num_k_heads},{model_name},0.5"
                if batch_size == 4 and phase == "context":
                    line = line[:-8] if seq_len == 16 else line + "VLLM"
                f.write(line + "\n")
