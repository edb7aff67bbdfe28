"""What aiconfigurator predicts for a workload, by its own API."""

import json


def predict(
    model_path,
    system_name,
    backend,
    backend_version,
    estimate_mode,
    isl,
    osl,
    concurrency,
    tensor_parallel_size,
    systems_paths,
    tree,
    bench,
):
    """One workload: times in ms, tokens/s per GPU, and the parts by op as JSON.

    A workload that the package cannot estimate raises, with its own words.
    """
    from aiconfigurator.cli.api import cli_estimate

    arguments = {
        "model_path": model_path,
        "system_name": system_name,
        "mode": estimate_mode,
        "backend_name": backend,
        "backend_version": backend_version or None,
        "isl": isl,
        "osl": osl,
        "batch_size": concurrency,
        "tp_size": tensor_parallel_size,
        "systems_paths": systems_paths or None,
    }
    result = cli_estimate(**arguments)
    row = {
        "latency": result.ttft + result.tpot * max(osl - 1, 0),
        "kernel_source": "aiconfigurator",
        "tables_version": str(result.backend_version),
        "arguments": json.dumps(arguments, sort_keys=True),
    }
    for name, value in (("ttft", result.ttft), ("tpot", result.tpot)):
        if value and value > 0:
            row[name] = value  # a mode that has no such phase says 0
    rate = result.raw.get("tokens/s/gpu") if isinstance(result.raw, dict) else None
    if rate:
        row["throughput_per_gpu"] = float(rate)
    if result.per_ops_data:
        row["per_ops"] = json.dumps(result.per_ops_data, sort_keys=True, default=float)
    if result.per_ops_source:
        row["per_ops_source"] = json.dumps(result.per_ops_source, sort_keys=True, default=str)
    return row
