"""Asks an installed aisimulate or aiconfigurator what it answers from a database.

Standard input: {"package": P, "root": DIR, "system": S, "backend": B, "version": V,
"queries": [{"table": T, "row": {...}}]}. An empty package means the first of PACKAGES that
is installed. Standard output, after whatever the package prints:
one line of JSON with the package's version and, for each query, the answer as the
bits of a double, why there is none, or that the package has no such query.
"""

import importlib.metadata
import inspect
import json
import logging
import math
import os
import sys


# The packages by name, each with the places of its modules.
PACKAGES = {
    "aisimulate": ("aisimulate_core.sdk.",),
    "aiconfigurator": ("aiconfigurator_core.sdk.", "aiconfigurator.sdk."),
}
package_name = ""


def installed(wanted):
    """Returns the name and version of the package to ask."""
    for name in [wanted] if wanted else PACKAGES:
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if wanted:
                raise
    raise importlib.metadata.PackageNotFoundError(" or ".join(PACKAGES))


def module(name):
    """Imports a module of the package."""
    for package in PACKAGES[package_name]:
        try:
            return importlib.import_module(package + name)
        except ModuleNotFoundError as err:
            if not (package + name).startswith(err.name or "?"):
                raise
    raise ModuleNotFoundError("no module %s in %s" % (name, package_name))


class NoQuery(Exception):
    """This package is not asked about that table by itself."""


def fitting(function, values):
    """Calls a function with those of the values that it has parameters for."""
    known = inspect.signature(function).parameters
    for base in getattr(function, "__mro__", ())[1:]:
        if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            break
        known = inspect.signature(base).parameters  # a subclass that only passes arguments on
    return function(**{k: v for k, v in values.items() if k in known})


class Methods:
    """Packages whose database has a method for each query: up to 0.10."""

    def __init__(self, db, common):
        self.db, self.common = db, common

    known = {"gemm", "context_attention", "generation_attention", "context_mla", "generation_mla", "mla_bmm", "moe", "custom_allreduce", "nccl"}

    def ask(self, table, row):
        name, values = arguments(table, row, self.common)
        if name not in self.known:
            raise NoQuery()
        return float(fitting(getattr(self.db, "query_" + name), values))


class Engine:
    """Packages that answer through their compiled engine: from 0.11."""

    def __init__(self, db, common, root):
        engine = module("engine")
        self.common, self.build = common, engine.build_ops_json
        # Without the folder the engine reads the package's own tables, wherever db is.
        self.handle = engine.EngineHandle.for_database(db, systems_path=root)

    def ask(self, table, row):
        name, v = arguments(table, row, self.common)
        at = {"is_context": True, "batch_size": 1, "s": 1, "prefix": 0, "x": None}
        at.update(v.get("at", {}))

        if name in COMPONENTS:
            native = importlib.import_module(PACKAGES[package_name][0].partition(".")[0] + "._native")
            op = native.op_from_spec_json(json.dumps({v["kind"]: dict(v["geometry"], name=name, measured=[])}))
        else:
            file, kind = CLASSES[name]
            op = fitting(getattr(module("operations." + file), kind), dict(v, name=name, scale_factor=1.0))

        _, latency, *more = self.handle.evaluate_ops_json(self.build([op]), **at)[0]
        if "sol" in more:
            raise LookupError("the package reads no row for it and estimates the time from the system's peaks")
        return float(latency)


# Where today's package has the operation of a query.
CLASSES = {
    "gemm": ("gemm", "GEMM"), "moe": ("moe", "MoE"), "nccl": ("communication", "NCCL"), "custom_allreduce": ("communication", "CustomAllReduce"),
    "context_attention": ("attention", "ContextAttention"), "generation_attention": ("attention", "GenerationAttention"),
    "encoder_attention": ("attention", "EncoderAttention"), "context_mla": ("mla", "ContextMLA"), "generation_mla": ("mla", "GenerationMLA"),
    "mla_bmm": ("mla", "MLABmm"), "context_mla_module": ("mla", "MLAModule"), "generation_mla_module": ("mla", "MLAModule"),
    "mamba2": ("mamba", "Mamba2Kernel"), "gdn": ("mamba", "GDNKernel"), "kda": ("mamba", "KDAKernel"), "mhc_module": ("dsv4", "DeepSeekV4MHCModule"),
    "moe_a2a": ("moe_comm", "MoEAllToAll"), "dsv4_megamoe_module": ("dsv4", "DeepSeekV4MegaMoEModule"), "context_dsa_module": ("dsa", "ContextDSAModule"), "generation_dsa_module": ("dsa", "GenerationDSAModule"),
}

# Tables whose rows describe an operation of the engine in full: its kind for each component.
COMPONENTS = {
    "glm53_attention_module": {"attention": "Glm53Attention"},
    "dsv41_module": {"attention": "Dsv41Attention", "linear": "Dsv41Linear", "engram": "Dsv41Engram", "mhc": "Dsv41Mhc"},
}


def split(size):
    """A size as tokens and elements for each, of which the engine takes 32 bits."""
    each = 1
    while size >= 1 << 31 and size % 2 == 0:
        size, each = size // 2, each * 2
    return size, each


def arguments(table, r, common):
    """The query that a row of a table answers: the parameters of old packages'
    methods and of today's operations, and in "at" what today's are evaluated at."""
    stem = table[: -len("_perf")]
    if table == "gemm_perf":
        return "gemm", {"m": r["m"], "n": r["n"], "k": r["k"], "quant_mode": common.GEMMQuantMode[r["gemm_dtype"]], "at": {"x": r["m"]}}
    if table in ("context_attention_perf", "generation_attention_perf", "context_mla_perf", "generation_mla_perf"):
        context = table.startswith("context")
        v = cached(r, common, r["isl"] if context else r["isl"] + r["step"], context)
        if "attention" in table:
            v.update({"n": r["num_heads"], "n_kv": r["num_key_value_heads"], "window_size": r.get("window_size") or 0, "head_size": r["head_dim"]})
        if context:
            v["fmha_quant_mode"] = common.FMHAQuantMode[r["attn_dtype" if "attention" in table else "mla_dtype"]]
        return stem, v
    if table == "encoder_attention_perf":
        v = {"b": r["batch_size"], "s": r["isl"], "n": r["num_heads"], "num_heads": r["num_heads"], "head_size": r["head_dim"]}
        return stem, dict(v, fmha_quant_mode=common.FMHAQuantMode[r["attn_dtype"]], at={"batch_size": r["batch_size"], "s": r["isl"]})
    if table == "mla_bmm_perf":
        v = {"num_tokens": r["num_tokens"], "num_heads": r["num_heads"], "quant_mode": common.GEMMQuantMode[r["bmm_dtype"]]}
        return stem, dict(v, if_pre=r["op_name"] == "mla_gen_pre", at={"is_context": False, "batch_size": r["num_tokens"]})
    if table in ("mla_context_module_perf", "mla_generation_module_perf"):
        context = "context" in table
        v = cached(r, common, r["isl"] if context else r["isl"] + r["step"], context)
        v.update(modes(r, common), is_context=context)
        return "context_mla_module" if context else "generation_mla_module", v
    if table in ("dsa_context_module_perf", "dsa_generation_module_perf"):
        if r["op_name"].endswith("skip_indexer"):
            raise NoQuery()  # a part of other queries
        context = "context" in table
        v = cached(r, common, r["isl"] if context else r["isl"] + r["step"], context, r["step"] if context else 0)
        v.update(modes(r, common), architecture=r["architecture"])
        return "context_dsa_module" if context else "generation_dsa_module", v
    if stem in COMPONENTS:
        geometry = json.loads(r["geometry"])
        at = {"is_context": geometry.get("is_context", True), "batch_size": r["batch_size"], "s": r["x"], "prefix": r["prefix"], "x": r["x"]}
        return stem, {"kind": COMPONENTS[stem][r["component"]], "geometry": geometry, "at": at}
    if table in ("mamba2_perf", "gdn_perf", "kda_perf"):
        if r["phase"] == "verify":
            raise NoQuery()
        v = {k: x for k, x in r.items() if k != "latency"}
        if table == "gdn_perf" and r["phase"] == "generation" and r["kernel_source"] != "causal_conv1d_update":
            v["kernel_source"] = "fused_sigmoid_gating_delta_rule_update"  # the query's name of every other kernel of decode
        return stem, dict(v, hidden_size=r["d_model"], at={"is_context": r["phase"] == "context", "batch_size": r["batch_size"], "s": r.get("seq_len") or 1})
    if table == "mhc_module_perf":
        if r["op_name"] not in ("pre", "post"):
            raise NoQuery()  # a part of other queries
        v = {"op": r["op_name"], "hidden_size": r["hidden_size"], "hc_mult": r["hc_mult"], "sinkhorn_iters": 20, "architecture": r.get("architecture")}
        return stem, dict(v, quant_mode=common.GEMMQuantMode.bfloat16, num_tokens=r["num_tokens"], at={"x": r["num_tokens"]})
    if table == "moe_perf":
        if r.get("default_eligible") is False:
            raise NoQuery()  # a query cannot name the kernel
        # The package reads the rows of this kernel as a format of their own.
        trtllm = r.get("kernel_source") == "sglang_mxfp4_flashinfer_trtllm_moe"
        mode = "w4a8_mxfp4_mxfp8_trtllm" if trtllm else r["moe_dtype"]
        v = {k: r[k] for k in ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")}
        v.update({"attention_dp_size": 1, "workload_distribution": r["distribution"], "at": {"x": r["num_tokens"]}})
        return "moe", dict(v, quant_mode=common.MoEQuantMode[mode])
    if table == "custom_allreduce_perf":
        tokens, each = split(r["message_size"])
        return stem, {"quant_mode": common.CommQuantMode.half, "tp_size": r["num_gpus"], "size": r["message_size"], "h": each, "at": {"x": tokens}}
    if table == "moe_a2a_perf":
        v = {k: r[k] for k in ("phase", "comm_backend", "hidden_size", "topk", "num_experts", "node_num", "comm_dtype")}
        return stem, dict(v, moe_ep_size=r["ep_size"], sms=r.get("sms") or 0, at={"x": r["num_tokens"]})
    if table == "trtllm_alltoall_perf":
        # Today's query is that of moe_a2a, which this table was before.
        way = {"NVLinkTwoSided": "nvlink_two_sided", "NVLinkOneSided": "nvlink_one_sided"}.get(r["kernel_source"])
        phase, _, low = r["op_name"].removeprefix("alltoall_").partition("_")
        if way is None:
            raise NoQuery()
        v = {k: r[k] for k in ("hidden_size", "topk", "num_experts", "moe_ep_size")}
        nodes = r.get("num_nodes") or max(1, r["moe_ep_size"] // 4)
        return "moe_a2a", dict(v, phase=phase, comm_backend=way, node_num=nodes, comm_dtype="fp4" if low else r["moe_dtype"], at={"x": r["num_tokens"]})
    if table == "dsv4_megamoe_module_perf":
        v = {k: r[k] for k in ("hidden_size", "inter_size", "topk", "num_experts", "moe_ep_size", "source_policy", "pre_dispatch", "kernel_source", "kernel_dtype")}
        v.update(moe_tp_size=r.get("moe_tp_size", 1), num_fused_shared_experts=r.get("num_fused_shared_experts", 0), is_context=r["phase"] == "context")
        return stem, dict(v, workload_distribution=r["distribution"], quant_mode=common.MoEQuantMode[r["moe_dtype"]], at={"x": r["num_tokens"]})
    if table in ("nccl_perf", "oneccl_perf"):
        tokens, each = split(r["message_size"])
        v = {"num_gpus": r["num_gpus"], "operation": r["op_name"], "nccl_op": r["op_name"], "message_size": r["message_size"]}
        dtype = common.CommQuantMode[r["nccl_dtype"]]
        return "nccl", dict(v, dtype=dtype, comm_quant_mode=dtype, num_elements_per_token=each, at={"x": tokens})
    raise NoQuery()


def modes(r, common):
    """The formats of a module of attention; decode takes no notice of mla_dtype."""
    return {"fmha_quant_mode": common.FMHAQuantMode[r.get("mla_dtype") or "bfloat16"], "gemm_quant_mode": common.GEMMQuantMode[r["gemm_type"]]}


def cached(r, common, length, context, prefix=0):
    """What the queries of attention share."""
    cache = common.KVCacheQuantMode[r["kv_cache_dtype"]]
    at = {"is_context": context, "batch_size": r["batch_size"], "s": length, "prefix": prefix}
    return {"b": r["batch_size"], "s": length, "prefix": prefix, "num_heads": r["num_heads"], "kvcache_quant_mode": cache, "kv_cache_dtype": cache, "at": at}


def database(perf, asked):
    """The database, of this folder alone: nothing is filled in from elsewhere."""
    where = {"systems_paths": [asked["root"]], "systems_dir": asked["root"], "database_mode": "SILICON", "shared_layer": False, "allow_unlisted_version": True}
    get = getattr(perf, "get_database_view", None) or perf.get_database
    return fitting(get, dict(where, system=asked["system"], backend=asked["backend"], version=asked["version"]))


def main():
    logging.disable(logging.WARNING)
    asked = json.load(sys.stdin)
    global package_name
    package_name, version = installed(asked.get("package", ""))
    said = {"package": package_name + " " + version, "answers": []}
    os.chdir(asked["root"])
    perf, common = module("perf_database"), module("common")
    db = database(perf, asked)
    if db is None:
        said["error"] = "the package finds no database of %s, %s %s there" % (asked["system"], asked["backend"], asked["version"])
    else:
        reader = Methods(db, common) if hasattr(db, "query_gemm") else Engine(db, common, asked["root"])
        for q in asked["queries"]:
            try:
                value = reader.ask(q["table"], q["row"])
                said["answers"].append({"value": value.hex()} if math.isfinite(value) else {"error": "the answer is %s, which is no time" % value})
            except NoQuery:
                said["answers"].append({"none": True})
            except Exception as err:
                said["answers"].append({"error": "%s: %s" % (type(err).__name__, str(err).strip().partition("\n")[0][:300])})
    print("\n" + json.dumps(said))


if __name__ == "__main__":
    main()
