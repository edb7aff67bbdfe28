"""What aiconfigurator, or its successor aisimulate, predicts for a workload, by its own API."""

import difflib
import functools
import hashlib
import importlib
import inspect
import json
import math
import os
import re
import tempfile
from importlib import metadata

# Where each package has its API and its database.
MODULES = {
    "aiconfigurator": ("aiconfigurator.cli.api", "aiconfigurator.sdk.perf_database"),
    "aisimulate": ("aisimulate.legacy_cli.api", "aisimulate_core.sdk.perf_database"),
}
LANES = "attention_lane_defaults.yaml"  # of all systems, beside their specs
PACKAGE = os.environ.get("PREDICT_PACKAGE", "aiconfigurator")

_not_found = {}  # what was said of models whose config the package could not get


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
    options="{}",
):
    """One workload: times in ms, tokens/s per GPU, and the parts by op as JSON.

    Where the collect reads exports, their files are the database that is asked, and
    no others that are in the output folder. A workload that the package cannot
    estimate raises, with its own words. options are further arguments of cli_estimate.
    """
    try:
        cli_estimate = importlib.import_module(MODULES[PACKAGE][0]).cli_estimate
    except (ImportError, AttributeError) as err:
        raise RuntimeError(other_version(err)) from err

    if model_path in _not_found:
        raise RuntimeError(_not_found[model_path])
    shown = systems_paths
    if bench.reads:
        shown = bench.reads[0].dir
        systems_paths = exported(bench.folder(), shown, system_name, tuple(f for r in bench.reads for f in r.files))
    elif tree == "exports":
        raise RuntimeError("the tree is that of exports, and this collect reads none")
    arguments = {
        "model_path": model_path,
        "system_name": system_name,
        "mode": estimate_mode,
        "backend_name": backend,
        "backend_version": backend_version or newest(system_name, backend, systems_paths),
        "isl": isl,
        "osl": osl,
        "batch_size": concurrency,
        "tp_size": tensor_parallel_size,
        "systems_paths": systems_paths or None,
    }
    known = parameters(cli_estimate)
    arguments.update(further(json.loads(options), arguments, known))
    try:
        result = cli_estimate(**arguments)
    except Exception as err:
        said = str(err)
        if bench.reads:
            said = said.replace(systems_paths, shown)
        if "does not fit in GPU memory" in said:
            bench.unsupported(said)  # its answer, and no fault
        lacking = [n for n in sorted(known or ()) if n not in arguments and re.search(r"\b%s\b" % n, said)]
        if isinstance(err, ValueError) and lacking:
            raise RuntimeError("%s (options of the module predict takes %s)" % (said, ", ".join(lacking))) from err
        if isinstance(err, TypeError) and "cli_estimate()" in said:
            raise RuntimeError(other_version(err)) from err
        if type(err).__name__ == "PerfDataNotAvailableError":
            what = "a table cannot be read" if "Parquet error" in said else "the tables lack what this workload needs"
            raise RuntimeError("%s: %s" % (what, said)) from err
        if type(err).__name__ != "HuggingFaceDownloadError":
            if said != str(err):
                raise RuntimeError(said) from err
            raise
        # Without a network each workload would wait for it again.
        _not_found[model_path] = (
            "%s does not have the model %s and cannot get its config: %s. Name one that it has, "
            "or a folder with the model's config.json" % (package(), model_path, err)
        )
        raise RuntimeError(_not_found[model_path]) from err
    arguments["systems_paths"] = shown or None
    for name in ("ttft", "tpot"):
        value = getattr(result, name, None)
        if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise RuntimeError("%s says that %s is %s, which is no time" % (package(), name, value))
    latency = result.ttft + result.tpot * max(osl - 1, 0)
    if latency == 0:
        bench.unsupported("%s says nothing of %d tokens out: there is no such phase" % (estimate_mode, osl))
    row = {
        "latency": latency,
        "kernel_source": PACKAGE,
        "tables_version": str(result.backend_version),
        "tables_digest": digest(systems_paths, system_name),
        "arguments": json.dumps(arguments, sort_keys=True),
    }
    if getattr(result, "kv_cache_warning", None):
        row["warning"] = result.kv_cache_warning  # such as a batch that does not fit
    for name, value in (("ttft", result.ttft), ("tpot", result.tpot)):
        if value and value > 0:
            row[name] = value  # a mode that has no such phase says 0
    rate = result.raw.get("tokens/s/gpu") if isinstance(result.raw, dict) else None
    if rate:
        row["throughput_per_gpu"] = float(rate)
    parts, source = result.per_ops_data, result.per_ops_source
    if not parts:
        parts, source = phases(getattr(result, "summary", None))
    if parts:
        row["per_ops"] = json.dumps(parts, sort_keys=True, default=float)
    if source:
        row["per_ops_source"] = json.dumps(source, sort_keys=True, default=str)
    return row


def parameters(function):
    """The names of a function's arguments; None where it takes any."""
    has = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in has):
        return None
    return {p.name for p in has}


def further(options, arguments, known):
    """The options, none of which a workload has already. batch_size may differ from
    the number of open requests: with attention_dp_size it is that of one rank."""
    for name in options:
        if name in arguments and name != "batch_size":
            raise ValueError("options has %s, which is the module's own setting or the workload's; set it there" % name)
        if known is not None and name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1)
            raise ValueError(
                "options has %s, and estimates of %s have no such argument%s"
                % (name, package(), "; it has " + near[0] if near else "")
            )
    return options


@functools.cache
def exported(within, folder, system_name, files):
    """Makes a folder below within, with links to the files that exports wrote and to what
    describes them, and returns its path. The output folder may have other files, of
    earlier runs and of other plans, such as a newer version's, which the package would
    take in their place."""
    root = tempfile.mkdtemp(prefix="predict-", dir=within)
    wanted = set(files) | {os.path.join(folder, name) for name in (system_name + ".yaml", LANES)}
    wanted |= {os.path.join(os.path.dirname(f), "collection_meta.yaml") for f in files}
    for path in sorted(wanted):
        if not os.path.isfile(path):
            continue
        link = os.path.join(root, os.path.relpath(path, folder))
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(path, link)
    return root


def phases(summary):
    """The parts of static modes, by phase: the encoder of images, the whole prefill, and
    all decode steps together. The package's API leaves them in its summary."""
    parts, source = {}, {}
    for phase in ("encoder", "context", "generation"):
        for into, what in ((parts, "latency"), (source, "source")):
            get = getattr(summary, "get_%s_%s_dict" % (phase, what), None)
            if get and get():
                into[phase] = dict(get())
    return parts, source


def other_version(err):
    return "%s cannot be asked as this module does, which was tried with aiconfigurator 0.12.0 and aisimulate 0.13.0: %s" % (
        package(),
        err,
    )


def package():
    """The package's name and version."""
    return "%s %s" % (PACKAGE, metadata.version(PACKAGE))


@functools.cache
def newest(system_name, backend, systems_paths):
    """The version that the package takes where none is named; None leaves it to the
    package. It looks through the folders of all systems for it, up to a second each
    time, and three times a workload."""
    try:
        latest = importlib.import_module(MODULES[PACKAGE][1]).get_latest_database_version
    except (ImportError, AttributeError):
        return None
    folders = None
    if systems_paths:
        folders = [p for p in systems_paths.split(",") if p]
        if "default" in folders:
            return None  # only the package knows where that is
    return latest(system=system_name, backend=backend, systems_paths=folders)


@functools.cache
def digest(systems_paths, system_name):
    """SHA-256 over the spec, the tables and the lanes of a system in a folder of ours; None
    for the package's own, which its version names."""
    if not systems_paths:
        return None
    total = hashlib.sha256()
    for root in systems_paths.split(","):
        if root == "default":
            total.update(b"default\0")
            continue
        files = [os.path.join(root, name) for name in (system_name + ".yaml", LANES)]
        for folder, _, names in os.walk(os.path.join(root, "data", system_name)):
            files += [os.path.join(folder, n) for n in names]
        for path in sorted(f for f in files if os.path.isfile(f)):
            with open(path, "rb") as f:
                content = hashlib.sha256(f.read()).digest()
            total.update(os.path.relpath(path, root).encode() + b"\0" + content)
    return "sha256:" + total.hexdigest()
