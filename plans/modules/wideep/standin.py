"""A stand-in for the collectors of wide expert parallelism: it measures nothing.

Every rank leaves a file, and rank 0 waits for those of all ranks before it writes
perf files whose times are made up from the sizes. Its rows say stand_in in
kernel_source. It shows that plans, launchers and files work where no framework
is.
"""

import csv
import json
import os
import pathlib
import sys
import time

TOKENS = [2**i for i in range(20)]


def main(output, case):
    rank, world = int(os.environ.get("SLURM_PROCID", os.environ.get("RANK", "0"))), int(os.environ["WORLD_SIZE"])
    here = pathlib.Path(output)
    # Under another name first: a file that is there is whole.
    mine = here / f"starting-{rank}"
    mine.write_text(os.environ.get("SLURMD_NODENAME", "here"))
    mine.rename(here / f"rank-{rank}")
    if rank:
        return
    until = time.monotonic() + 60
    while len(list(here.glob("rank-*"))) < world:
        if time.monotonic() > until:
            sys.exit(f"{len(list(here.glob('rank-*')))} of {world} ranks have started within 60 s")
        time.sleep(0.02)
    nodes = len({p.read_text() for p in here.glob("rank-*")})
    if nodes != case["nodes"]:
        sys.exit(f"the ranks are on {nodes} nodes, and the case has {case['nodes']}")
    for table, rows in tables(case).items():
        with (here / f"{table}.txt").open("w", newline="") as f:
            out = csv.DictWriter(f, ["framework", "version", "device", "op_name", "kernel_source", *rows[0]])
            out.writeheader()
            for row in rows:
                out.writerow({"framework": "STANDIN", "version": "0", "device": "none", "op_name": op_name(table), "kernel_source": "stand_in", **row})


def op_name(table):
    for word in ("ll", "normal", "mlp"):
        if f"_{word}_" in table:
            return word
    phase = "context" if "context" in table else "generation"
    if table == "moe_a2a_perf":
        return "moe_a2a"
    return f"moe_{phase}" if "_moe_" in table else f"mla_{phase}"


def tables(case):
    kind, nodes = case["collector"], case["nodes"]
    if kind == "mlp":
        rows = [{"quant_type": "fp8_block", "num_token": t, "hidden_size": 7168, "intermediate_size": 2048, "avg_ms": 0.02 + t * 1e-5} for t in TOKENS]
        return {"wideep_context_mlp_perf": rows, "wideep_generation_mlp_perf": rows}
    if kind == "moe":
        common = {
            "moe_dtype": "fp8_block", "hidden_size": 7168, "inter_size": 2048, "topk": 8, "num_experts": 256,
            "moe_tp_size": 1, "moe_ep_size": case["ranks"],
        }
        rows = [
            dict(common, num_tokens=t, distribution=d, latency=0.03 + t * 1e-5)
            for t in TOKENS for d in ("uniform", "power_law_0.8", "power_law_1.01")
        ]
        return {"wideep_context_moe_perf": rows, "wideep_generation_moe_perf": rows}
    if kind == "attention":
        common = {
            "model": "deepseek-ai/DeepSeek-V3", "architecture": "DeepseekV3ForCausalLM", "mla_dtype": "fp8_block", "kv_cache_dtype": "fp8",
            "gemm_type": "fp8_block", "tp_size": 1,
        }
        shapes = [(h, b, s) for h in (16, 32, 64, 128) for b in (1, 8, 64) for s in (1, 128, 1024, 8192)]
        return {
            "wideep_context_mla_perf": [dict(common, num_heads=h, batch_size=b, isl=s, step=0, latency=0.5 + h * b * s * 1e-6) for h, b, s in shapes],
            "wideep_generation_mla_perf": [dict(common, num_heads=h, batch_size=b, isl=1, step=s, latency=0.03 + h * b * s * 1e-8) for h, b, s in shapes],
        }
    if kind == "moe_a2a":
        common = {
            "comm_backend": case["comm_backend"], "phase": case["phase"], "comm_dtype": case["comm_dtype"], "ep_size": case["ranks"], "node_num": nodes,
            "hidden_size": case["hidden_size"], "topk": case["topk"], "num_experts": case["num_experts"], "sms": case["sms"],
        }
        return {"moe_a2a_perf": [dict(common, num_tokens=t, latency=25.0 + t * nodes / 10, transmit_us=20.0 + t * nodes / 10, notify_us=5.0) for t in TOKENS]}
    common = {"node_num": nodes, "hidden_size": case["hidden_size"], "num_topk": case["num_topk"], "num_experts": case["num_experts"]}
    if kind == "deepep_ll":
        return {"wideep_deepep_ll_perf": [
            dict(
                common, num_token=t, combine_avg_t_us=20.0 + t * nodes, combine_bandwidth_gbps=40.0,
                dispatch_avg_t_us=10.0 + t * nodes, dispatch_bandwidth_gbps=40.0,
            )
            for t in TOKENS
        ]}
    return {"wideep_deepep_normal_perf": [
        dict(
            common, num_token=t, dispatch_sms=s, dispatch_transmit_us=30.0 + t / s, dispatch_notify_us=9.0,
            combine_sms=s, combine_transmit_us=40.0 + t / s, combine_notify_us=8.0,
        )
        for t in TOKENS for s in (12, 20, 24)
    ]}


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
