"""Asks an installed aiconfigurator what it answers from a database.

Standard input: {"root": DIR, "system": S, "backend": B, "version": V, "queries":
[{"table": T, "row": {...}}]}. Standard output, after whatever the package prints:
one line of JSON with the package's version and, for each query, the answer as the
bits of a double, why there is none, or that the package has no such query.
"""

import importlib.metadata
import inspect
import json
import logging
import os
import sys


def module(name):
    """A module of the package, which has moved its parts into another one."""
    for package in ("aiconfigurator_core.sdk.", "aiconfigurator.sdk."):
        try:
            return importlib.import_module(package + name)
        except ModuleNotFoundError as err:
            if not (package + name).startswith(err.name or "?"):
                raise
    raise ModuleNotFoundError("no module %s in aiconfigurator" % name)


class NoQuery(Exception):
    """This package is not asked about that table by itself."""


def fitting(function, values):
    """Calls a function with those of the values that it has parameters for."""
    known = inspect.signature(function).parameters
    return function(**{k: v for k, v in values.items() if k in known})


class Methods:
    """Packages whose database has a method for each query: up to 0.10."""

    def __init__(self, db, common):
        self.db, self.common = db, common

    def ask(self, table, row):
        name, values = arguments(table, row, self.common)
        return float(fitting(getattr(self.db, "query_" + name), values))


class Engine:
    """Packages that answer through their compiled engine: from 0.11."""

    def __init__(self, db, common):
        engine = module("engine")
        self.common, self.build = common, engine.build_ops_json
        self.handle = engine.EngineHandle.for_database(db)

    def ask(self, table, row):
        name, v = arguments(table, row, self.common)
        ops, op = module("operations." + {"gemm": "gemm", "moe": "moe", "nccl": "communication", "custom_allreduce": "communication"}.get(
            name, "mla" if "mla" in name else "attention")), None
        at = {"is_context": name != "generation_attention" and name != "generation_mla", "batch_size": 1, "s": 1, "prefix": 0, "x": None}
        if name == "gemm":
            op, at["x"] = ops.GEMM(name, 1.0, v["n"], v["k"], v["quant_mode"]), v["m"]
        elif name in ("context_attention", "generation_attention", "context_mla", "generation_mla"):
            kind = {"context_attention": "ContextAttention", "generation_attention": "GenerationAttention",
                    "context_mla": "ContextMLA", "generation_mla": "GenerationMLA"}[name]
            at["batch_size"], at["s"] = v["b"], v["s"]
            op = fitting(getattr(ops, kind), dict(v, name=name, scale_factor=1.0))
        elif name == "moe":
            at["x"] = v["num_tokens"]
            op = ops.MoE(name, 1.0, v["hidden_size"], v["inter_size"], v["topk"], v["num_experts"], v["moe_tp_size"], v["moe_ep_size"],
                         v["quant_mode"], v["workload_distribution"], attention_dp_size=1)
        elif name == "custom_allreduce":
            at["x"], each = split(v["size"])
            op = ops.CustomAllReduce(name, 1.0, each, v["tp_size"])
        elif name == "nccl":
            at["x"], each = split(v["message_size"])
            op = ops.NCCL(name, 1.0, v["operation"], each, v["num_gpus"], v["dtype"])
        if op is None:
            raise NoQuery()
        return float(self.handle.evaluate_ops_json(self.build([op]), **at)[0][1])


def split(size):
    """A size as tokens and elements for each, of which the engine takes 32 bits."""
    each = 1
    while size >= 1 << 31 and size % 2 == 0:
        size, each = size // 2, each * 2
    return size, each


def arguments(table, r, common):
    """The query that a row of a table answers."""
    if table == "gemm_perf":
        return "gemm", {"m": r["m"], "n": r["n"], "k": r["k"], "quant_mode": common.GEMMQuantMode[r["gemm_dtype"]]}
    if table in ("context_attention_perf", "generation_attention_perf"):
        context = table.startswith("context")
        cache = common.KVCacheQuantMode[r["kv_cache_dtype"]]
        v = {"b": r["batch_size"], "s": r["isl"] if context else r["isl"] + r["step"], "prefix": 0, "n": r["num_heads"], "n_kv": r["num_key_value_heads"],
             "kvcache_quant_mode": cache, "kv_cache_dtype": cache, "window_size": r.get("window_size") or 0, "head_size": r["head_dim"]}
        if context:
            v["fmha_quant_mode"] = common.FMHAQuantMode[r["attn_dtype"]]
        return table[: -len("_perf")], v
    if table in ("context_mla_perf", "generation_mla_perf"):
        context = table.startswith("context")
        cache = common.KVCacheQuantMode[r["kv_cache_dtype"]]
        v = {"b": r["batch_size"], "s": r["isl"] if context else r["isl"] + r["step"], "prefix": 0, "num_heads": r["num_heads"],
             "kvcache_quant_mode": cache, "kv_cache_dtype": cache}
        if context:
            v["fmha_quant_mode"] = common.FMHAQuantMode[r["mla_dtype"]]
        return table[: -len("_perf")], v
    if table == "mla_bmm_perf":
        return "mla_bmm", {"num_tokens": r["num_tokens"], "num_heads": r["num_heads"], "quant_mode": common.GEMMQuantMode[r["bmm_dtype"]],
                           "if_pre": r["op_name"] == "mla_gen_pre"}
    if table == "moe_perf":
        v = {k: r[k] for k in ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")}
        return "moe", dict(v, quant_mode=common.MoEQuantMode[r["moe_dtype"]], workload_distribution=r["distribution"])
    if table == "custom_allreduce_perf":
        return "custom_allreduce", {"quant_mode": common.CommQuantMode.half, "tp_size": r["num_gpus"], "size": r["message_size"]}
    if table == "nccl_perf":
        return "nccl", {"dtype": common.CommQuantMode[r["nccl_dtype"]], "num_gpus": r["num_gpus"], "operation": r["op_name"], "message_size": r["message_size"]}
    raise NoQuery()


def database(perf, asked):
    """The database, of this folder alone: nothing is filled in from elsewhere."""
    where = {"systems_paths": [asked["root"]], "systems_dir": asked["root"], "database_mode": "SILICON", "shared_layer": False, "allow_unlisted_version": True}
    get = getattr(perf, "get_database_view", None) or perf.get_database
    return fitting(get, dict(where, system=asked["system"], backend=asked["backend"], version=asked["version"]))


def main():
    logging.disable(logging.WARNING)
    asked = json.load(sys.stdin)
    version = importlib.metadata.version("aiconfigurator")
    said = {"package": "aiconfigurator " + version, "answers": []}
    os.chdir(asked["root"])
    perf, common = module("perf_database"), module("common")
    db = database(perf, asked)
    if db is None:
        said["error"] = "the package finds no database of %s, %s %s there" % (asked["system"], asked["backend"], asked["version"])
    else:
        reader = Methods(db, common) if hasattr(db, "query_gemm") else Engine(db, common)
        for q in asked["queries"]:
            try:
                said["answers"].append({"value": reader.ask(q["table"], q["row"]).hex()})
            except NoQuery:
                said["answers"].append({"none": True})
            except Exception as err:
                said["answers"].append({"error": "%s: %s" % (type(err).__name__, str(err).strip().partition("\n")[0][:300])})
    print("\n" + json.dumps(said))


if __name__ == "__main__":
    main()
