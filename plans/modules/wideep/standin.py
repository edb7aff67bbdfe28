"""A stand-in for the collectors of wide expert parallelism: it measures nothing.

Every rank leaves a file, and rank 0 waits for those of all ranks before it writes
perf files whose times are made up from the sizes. Where a case has experts, the
ranks send numbers to them and back through files first, by the distribution of the
case, and hold what arrives against what was sent. Its rows say stand_in in
kernel_source. It shows that plans, launchers, ranks and files work where no
framework is.

STANDIN_FAULT=lose or alter in the environment makes rank 0 lose or alter a number,
to show that it is found.
"""

import collections
import csv
import json
import os
import pathlib
import sys
import time

TOKENS = [2**i for i in range(20)]
SENT = 16  # tokens that each rank sends


def main(output, case):
    rank, world = int(os.environ.get("SLURM_PROCID", os.environ.get("RANK", "0"))), int(os.environ["WORLD_SIZE"])
    here = pathlib.Path(output)
    put(here, "rank", rank, os.environ.get("SLURMD_NODENAME", "here"))
    if rank == 0:
        nodes = len(set(gather(here, "rank", rank, world)))
        if nodes != case["nodes"]:
            fail(here, rank, f"the ranks are on {nodes} nodes, and the case has {case['nodes']}")
    if "num_experts" in case:
        exchange(here, rank, world, case)
    if rank:
        return
    for table, rows in tables(case).items():
        with (here / f"{table}.txt").open("w", newline="") as f:
            out = csv.DictWriter(f, ["framework", "version", "device", "op_name", "kernel_source", *rows[0]])
            out.writeheader()
            for row in rows:
                out.writerow({"framework": "STANDIN", "version": "0", "device": "none", "op_name": op_name(table), "kernel_source": "stand_in", **row})


def exchange(here, rank, world, case):
    """Sends tokens to experts and what they make of them back, and checks both."""
    experts, topk = case["num_experts"], case.get("num_topk", case.get("topk"))
    if experts % world:
        fail(here, rank, f"{world} ranks do not divide {experts} experts")
    own = experts // world
    chosen = [choices(case.get("distribution", "uniform"), experts, topk, world, source) for source in range(world)]

    box = collections.defaultdict(list)
    for token, ids in enumerate(chosen[rank]):
        for e in ids:
            box[e // own].append([token, e, number(rank, token)])
    fault = os.environ.get("STANDIN_FAULT") if rank == 0 else None
    if fault == "lose":
        box[max(box)].pop()
    elif fault == "alter":
        box[max(box)][-1][2] += 1
    put(here, "sent", rank, json.dumps(box))
    arrived = [(source, *item) for source, text in enumerate(gather(here, "sent", rank, world)) for item in json.loads(text).get(str(rank), [])]

    want, total = collections.Counter(), 0
    for source in range(world):
        for token, ids in enumerate(chosen[source]):
            for e in ids:
                if e // own == rank:
                    want[e] += 1
                    total += number(source, token)
    got = collections.Counter(e for _, _, e, _ in arrived)
    for e in range(rank * own, (rank + 1) * own):
        if got[e] != want[e]:
            fail(here, rank, f"dispatch: {got[e]} tokens have arrived at expert {e}, and {want[e]} were sent to it")
    if sum(v for *_, v in arrived) != total:
        fail(here, rank, f"dispatch: what has arrived adds up to {sum(v for *_, v in arrived)}, and what was sent to {total}")

    back = collections.defaultdict(list)
    for source, token, e, v in arrived:
        back[source].append([token, v * (e + 1)])
    put(here, "back", rank, json.dumps(back))
    sums = collections.Counter()
    for text in gather(here, "back", rank, world):
        for token, v in json.loads(text).get(str(rank), []):
            sums[token] += v
    for token, ids in enumerate(chosen[rank]):
        expected = number(rank, token) * sum(e + 1 for e in ids)
        if sums[token] != expected:
            fail(here, rank, f"combine: token {token} has come back as {sums[token]}, not as {expected}")
    put(here, "done", rank, "")
    if rank == 0:
        gather(here, "done", rank, world)
        busiest, quietest = ranks_load(chosen, own, world)
        print(f"{SENT} tokens of each of {world} ranks went to {topk} of {experts} experts and back; the ranks had {quietest} to {busiest} of them")


def choices(distribution, experts, topk, world, source):
    """The experts of each token of a rank."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "torch"))
    from routing import routing

    name = "balanced" if distribution == "uniform" else distribution
    return list(zip(*routing(name, SENT, experts, topk, world, source)))


def ranks_load(chosen, own, world):
    load = collections.Counter(e // own for tokens in chosen for ids in tokens for e in ids)
    return max(load.values()), min(load[r] for r in range(world))


def number(rank, token):
    return rank * SENT + token + 1


def put(here, kind, rank, text):
    # Under another name first: a file that is there is whole.
    part = here / f"part-{kind}-{rank}"
    part.write_text(text)
    part.rename(here / f"{kind}-{rank}")


def gather(here, kind, rank, world):
    """What all ranks have put, by rank; ends where one has failed."""
    until = time.monotonic() + 60
    while len(list(here.glob(f"{kind}-*"))) < world:
        for failed in here.glob("failed-*"):
            sys.exit(f"rank {rank} ends: {failed.name.replace('failed-', 'rank ')} has failed: {failed.read_text()}")
        if time.monotonic() > until:
            fail(here, rank, f"{len(list(here.glob(f'{kind}-*')))} of {world} ranks have come to {kind!r} within 60 s")
        time.sleep(0.02)
    return [(here / f"{kind}-{r}").read_text() for r in range(world)]


def fail(here, rank, why):
    put(here, "failed", rank, why)
    sys.exit(f"rank {rank}: {why}")


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
        rows = [dict(common, num_tokens=t, distribution=case["distribution"], latency=0.03 + t * 1e-5) for t in TOKENS]
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
