#!/usr/bin/env python3
"""Runs the collectors of a checkout of aiconfigurator on stand-ins of their frameworks.

For every op that the plans (by default those of TensorRT-LLM, vLLM and SGLang, and
that of their all-reduce) bind to a collector: the module is imported, the getter is called, a few planned
cases are looked up and measured by the collector's own code, and its rows go
through aicplan as they do on a GPU. No kernel runs: torch and the frameworks are
stand-ins in which every name exists, and where a collector branches on what a
framework answered, the way that does not raise is taken.

It finds: modules, functions and parameters that have other names, other versions
in __compat__, cases that are not listed, arguments in another order, columns and
values that rows lack or that contradict their case. It does not find: whether the
frameworks have the names that the collectors import, and whether kernels run.

Exit status: 0 every binding gives rows and no signature differs from those that
the bindings were written for; 1 otherwise; 2 wrong usage.
"""

import argparse
import ast
import difflib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
PLANS = ("h200_trtllm.hcl", "h200_vllm.hcl", "h200_sglang.hcl")
BY_BACKEND = "h200_allreduce.hcl"  # one plan for all three
REAL = {"yaml", "packaging"}  # libraries that the collectors' lists of cases need


def imported(checkout):
    """The packages that the checkout's collectors import and that it has not itself."""
    own = {"collector", "aiconfigurator", "aiconfigurator_core"}
    tops = set()
    for folder, _, files in os.walk(os.path.join(checkout, "collector")):
        for name in files:
            if not name.endswith(".py"):
                continue
            own.add(name[:-3])
            try:
                with open(os.path.join(folder, name), "rb") as f:
                    tree = ast.parse(f.read())
            except SyntaxError as err:
                print("%s: %s" % (os.path.join(folder, name), err), file=sys.stderr)
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    tops.update(a.name.partition(".")[0] for a in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    tops.add(node.module.partition(".")[0])
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[a-z_]\w*(\.\w+)+", node.value):
                    top = node.value.partition(".")[0]
                    if top in {"torch", "vllm", "sglang", "tensorrt_llm", "flashinfer", "deep_gemm", "triton", "tilelang"}:
                        tops.add(top)  # importlib.import_module("vllm.x")
    own |= {d for d in os.listdir(os.path.join(checkout, "collector")) if os.path.isdir(os.path.join(checkout, "collector", d))} - {"vllm", "sglang"}
    return tops - own - set(sys.stdlib_module_names) | {"torch", "vllm", "sglang", "tensorrt_llm"}


def on_stand_ins(text, work, stub, evaluate):
    """The plan with runtimes that run on the processor, on stand-ins of the version
    that they require. evaluate(expression) returns the value that an expression of the plan has."""

    def runtime(found):
        block = found.group(0)
        if not re.search(r'kind\s*=\s*"python"', block):
            return block
        package = re.search(r'package\s*=\s*"([^"]+)"', block)
        requires = re.search(r"requires\s*=\s*([^\n]+)", block)
        version = re.sub(r"^[<>=!~ ]*", "", (evaluate(requires.group(1)) if requires else "").split(",")[0]) or "1.0.0"
        name = package.group(1) if package else "package"
        dist = os.path.join(work, "dist", "%s-%s" % (name, version))
        info = os.path.join(dist, "%s-%s.dist-info" % (name, version))
        os.makedirs(info, exist_ok=True)
        with open(os.path.join(info, "METADATA"), "w", encoding="ascii") as f:
            f.write("Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
        settings = dict(stub, versions={name: version})
        add = '{ PYTHONPATH = "%s", AICPLAN_STUB = %s, PYTHONDONTWRITEBYTECODE = "1" }' % (
            os.pathsep.join([os.path.join(HERE, "stubs"), dist]), json.dumps(json.dumps(settings)).replace("${", "$${")
        )
        env = re.search(r"\n(\s*)env\s*=\s*([^\n]+)", block)
        block = block.replace(env.group(0), "") if env else block
        env = "merge(%s, %s)" % (env.group(2), add) if env else add
        return block[:-1] + '  env = %s\n  device = "cpu"\n  python = %s\n}' % (env, json.dumps(sys.executable))

    return re.sub(r'(?ms)^runtime "[^"]+" \{.*?^\}', runtime, text)


def prepared(args, plan, stub):
    """A copy of the plan's folder to run."""
    work = args.work
    folder = os.path.join(work, "plans")
    if not os.path.isdir(folder):
        shutil.copytree(os.path.dirname(os.path.abspath(plan)), folder, ignore=shutil.ignore_patterns("*.go", "testdata", "out", ".aicplan"))
        pipeline = os.path.join(folder, "modules", "pipeline", "pipeline.hcl")
        if os.path.exists(pipeline):
            with open(pipeline, encoding="utf-8") as f:
                text = f.read()
            for line, changed in (
                # The shortest measurement that there is.
                ("measure { power = var.power }", 'measure { protocol = "reference" }'),
                # A collector that waits for what a stand-in never answers.
                ('collect "op" {', 'collect "op" {\n  deadline { first = "4m" }'),
            ):
                if line not in text:
                    sys.exit("%s has no line %s to change" % (pipeline, line))
                text = text.replace(line, changed)
            with open(pipeline, "w", encoding="utf-8") as f:
                f.write(text)
    path = os.path.join(folder, os.path.basename(plan))
    with open(plan, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(on_stand_ins(text, work, stub, lambda expression: json.loads(aicplan(args, "describe", plan, "--json", "--eval", expression).stdout)))
    return path


def aicplan(args, *words, **more):
    env = dict(os.environ, AICPLAN_LOCK_DIR=os.path.join(args.work, "locks"))
    return subprocess.run([args.aicplan, *words], env=env, capture_output=True, text=True, check=False, **more)


def op_of(address):
    found = re.search(r'\["([^"]+)"\]$', address)
    return found.group(1) if found else address.rpartition(".")[2]


def run(args, plan, work, backend=""):
    """The ops of one plan, as the lines of the table."""
    state = os.path.join(work, "state-%s%s" % (os.path.basename(plan), backend))
    words = ["--state-dir=" + state, "apply", "--json", "--target", "*collect*", "--out-dir", os.path.join(work, "out")]
    words += ["--limit", str(args.cases)] if args.cases else ["--smoke"]
    words += ["--var", "collector_root=" + os.path.abspath(args.checkout)]
    if backend:
        words += ["--var", "backend=" + backend]
        if backend == "trtllm":  # one rank of several: there may be no MPI here
            words += ["--var", 'launcher=["env", "OMPI_COMM_WORLD_SIZE={ranks}", "OMPI_COMM_WORLD_RANK=0"]']
    elif args.op:
        words += ["--var", "ops=" + json.dumps(args.op)]
    backend = backend or re.sub(r"^h200_|\.hcl$", "", os.path.basename(plan))
    done = aicplan(args, *words, plan)
    ends, stopped = {}, {}
    for line in done.stdout.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("type") == "stage_end":
            bad = [c.get("message") or c.get("name") for c in event.get("checks") or [] if c.get("result") == "fail"]
            if bad:
                stopped["%s did not pass" % event["stage"]] = "; ".join(bad)
        if event.get("type") == "stage_end" and "collect" in event.get("stage", ""):
            ends[event["stage"]] = event
    if not ends:
        raise SystemExit("%s: the plan did not run:\n%s" % (plan, (done.stdout + done.stderr)[-4000:]))
    failures = aicplan(args, "--state-dir=" + state, "failures", "--json", "--group-by", "stage,class,message", "--traceback")
    groups = {}
    for group in json.loads(failures.stdout or "[]"):
        groups.setdefault(group["values"][0], []).append(group)
    out = []
    for stage, event in ends.items():
        counts = event.get("counts") or {}
        measured, failed = counts.get("measured", 0), counts.get("failed", 0)
        reasons = []
        for g in groups.get(stage, []):
            example = g.get("example", {})
            text = (example.get("message") or g["values"][2]).splitlines()[0]
            reasons.append({"cases": g["count"], "class": g["values"][1], "message": text, "example": example})
        note = "; ".join("%d x %s: %s" % (r["cases"], r["class"], r["message"]) for r in reasons) if failed or not measured else ""
        if not measured and not reasons:
            note = event.get("message") or event.get("error") or "no case was tried"
            note = stopped.get(note, note).splitlines()[0]  # what a preflight said, rather than that it failed
        out.append({
            "backend": backend, "op": op_of(stage), "rows": measured, "failed": failed, "reason": note, "failures": reasons,
            "result": "none" if not measured else "part" if failed else "all",
        })
    return out


def differences(checkout):
    """The differences of the checkout's run functions from those that the bindings
    were written for: without running anything."""
    with open(os.path.join(HERE, "..", "testdata", "upstream.json"), encoding="utf-8") as f:
        facts = json.load(f)["modules"]
    out = []
    for module, fact in sorted(facts.items()):
        path = os.path.join(checkout, *module.split(".")) + ".py"
        if not os.path.exists(path):
            out.append("%s: the checkout has no such module" % module)
            continue
        try:
            with open(path, "rb") as f:
                tree = ast.parse(f.read())
        except SyntaxError as err:
            out.append("%s: %s" % (module, err))
            continue
        compat = ""
        functions = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                names = [a.arg for a in node.args.posonlyargs + node.args.args]
                functions[node.name] = names
            elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__compat__" for t in node.targets):
                compat = ast.literal_eval(node.value)
        if compat != fact.get("compat", ""):
            out.append("%s: it is for %s; the bindings are for %s" % (module, compat or "any version", fact.get("compat") or "any version"))
        for name, want in sorted(fact["functions"].items()):
            if name not in functions:
                out.append("%s: no function %s%s" % (module, name, like(name, functions)))
            elif functions[name] != want:
                out.append("%s: %s(%s); the bindings are for %s(%s)" % (module, name, ", ".join(functions[name]), name, ", ".join(want)))
    return out


def like(name, names):
    near = difflib.get_close_matches(name, [n for n in names if not n.startswith("_")], 1, 0.5)
    return "; there is " + near[0] if near else ""


def usable(args):
    """What is wrong with the arguments, or None."""
    program = shutil.which(args.aicplan)
    if program is None:
        return "%s is no program; build it with make build" % args.aicplan
    args.aicplan = os.path.abspath(program)
    if not os.path.isdir(os.path.join(args.checkout, "collector")):
        return "%s has no folder collector; name a checkout of aiconfigurator" % args.checkout
    if sys.version_info < (3, 10):
        return "Python %s is too old for this check: 3.10 or later" % sys.version.split()[0]
    for module in sorted(REAL & imported(args.checkout)):
        if importlib.util.find_spec(module) is None:
            return "this Python has no %s, which the collectors' lists of cases need: pip install pyyaml packaging" % module
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("-cases", type=int, default=0, metavar="N", help="the first N cases of every op, instead of a sample of four")
    parser.add_argument("-op", action="append", default=[], metavar="NAME", help="only this op (repeatable)")
    parser.add_argument("-sm", default="90", help="the compute capability that collectors see, 90 by default")
    parser.add_argument("-keep", default="", metavar="DIR", help="keep the plans and the state folders there")
    parser.add_argument("aicplan", help="the program")
    parser.add_argument("checkout", help="a checkout of aiconfigurator")
    parser.add_argument("plan", nargs="*", help="plans; by default those of the three backends")
    args = parser.parse_args()
    wrong = usable(args)
    if wrong:
        print("upstream-check: " + wrong, file=sys.stderr)
        return 2
    args.work = args.keep or tempfile.mkdtemp(prefix="upstream-check-")
    for name in os.listdir(args.work) if args.keep and os.path.isdir(args.work) else []:
        if name in ("plans", "dist", "out") or name.startswith("state-"):
            shutil.rmtree(os.path.join(args.work, name))  # of an earlier check
    stub = {"root": os.path.abspath(args.checkout), "modules": sorted(imported(args.checkout) - REAL), "sm": [int(args.sm[:-1]), int(args.sm[-1])]}
    lines = []
    try:
        work = [(plan, "") for plan in args.plan or [os.path.join(ROOT, "plans", p) for p in PLANS if args.op != ["custom_allreduce"]]]
        if not args.plan and (not args.op or "custom_allreduce" in args.op):
            work += [(os.path.join(ROOT, "plans", BY_BACKEND), backend) for backend in ("trtllm", "vllm", "sglang")]
        for plan, backend in work:
            got = run(args, prepared(args, plan, stub), args.work, backend)
            lines += got
            if not args.json:
                show(got)
    finally:
        if not args.keep:
            shutil.rmtree(args.work, ignore_errors=True)
    differs = differences(args.checkout) if not args.plan else []
    bound, with_rows = len(lines), sum(1 for x in lines if x["rows"])
    if args.json:
        print(json.dumps({"bindings": bound, "with_rows": with_rows, "ops": lines, "differences": differs}, indent=1))
    else:
        for text in differs:
            print("differs  " + text)
        print("%d of %d bindings give rows%s" % (with_rows, bound, "; %d differences from the recorded signatures" % len(differs) if differs else ""))
    return 0 if with_rows == bound and not differs else 1


def show(lines):
    for x in lines:
        print("%-8s %-36s %-5s %5d rows %4d failed  %s" % (x["backend"], x["op"], x["result"], x["rows"], x["failed"], x["reason"][:300]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
