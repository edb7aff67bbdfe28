#!/usr/bin/env python3
"""Compares aicplan with the collectors' own benchmark: random cases of an op, both in the same order on one GPU.

    bench.py AICPLAN CHECKOUT BACKEND OP [--cases 400] [--where EXPRESSION] [--workers 8] [--runs 2] [--truth 0] [--seed 11] [--fresh]

BACKEND is vllm or sglang, and must be installed for python3. One process calls the collectors with their own
benchmark_with_power, after first calls that import and compile, for the cases for which aicplan's workers compile.
aicplan applies a plan with the same cases, after a stage in which its workers import, and compile for the same cases. Its
time is that of the whole second stage. Eight workers are what a long run has. aicplan fills operands that the collectors
leave uninitialised, as its plans do. --truth N also measures N of the cases alone, with operands filled in the same way,
each for 0.6 s of which the last 40 % count, in two orders. --fresh gives every run a home and a folder for temporary
files of its own, so that each compiles all its kernels.

Exit status: 0 compared; 1 one of the two has no rows; 2 wrong usage.
"""

import argparse
import contextlib
import csv
import datetime
import importlib
import io
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import types

HOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "host")
PLANS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "plans")
PLAN = """
variable "case" { type = any }
variable "first" { type = any }

module "frameworks" {
  source  = "%(plans)s/modules/frameworks"
  backend = "%(backend)s"
}

runtime "bench" {
  kind           = "python"
  framework      = "%(backend)s"
  package        = "%(backend)s"
  env            = module.frameworks.runtime_env
  collector_root = "%(checkout)s"
  workers        = %(workers)d
}

system "this" { name = "%(system)s" }

%(stages)s"""
STAGES = """
grid "%(name)s" {
  op         = "%(op)s"
  perf_table = replace(module.frameworks.bindings["%(op)s"].perf_filename, ".txt", "")
  columns    = %(columns)s
  constants  = %(constants)s
  rows "case" { values = %(cases)s }%(sweep)s
}

collect "%(name)s" {
  grid    = grid.%(name)s
  runtime = runtime.bench
  system  = system.this
  bind    = module.frameworks.bindings["%(op)s"]
  %(more)s
}
"""


def percentiles(values, *at):
    values = sorted(values)
    return " ".join("%.3f" % values[min(len(values) - 1, int(p * len(values)))] for p in at) if values else "none"


def examples(calls):
    """The calls for which aicplan's workers have torch compile: of each kind the one nearest to the middle."""
    far, kinds = [0.0] * len(calls), [()] * len(calls)
    for column in zip(*calls):
        numbers = sorted({v for v in column if type(v) in (int, float) and v not in (0, 1)})
        place = {v: abs(2 * i - len(numbers) + 1.25) / len(numbers) for i, v in enumerate(numbers)}
        for i, v in enumerate(column):
            if type(v) in (int, float) and v in place:
                far[i] += place[v]
            else:
                kinds[i] += (json.dumps(v),)
    best = {}
    for i, kind in enumerate(kinds):
        if kind not in best or far[i] < far[best[kind]]:
            best[kind] = i
    return [calls[i] for i in best.values()]


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.plan, self.vars = os.path.join(folder, "bench.hcl"), os.path.join(folder, "cases.hclvars")

    def environment(self):
        if not self.args.fresh:
            return None
        folder = tempfile.mkdtemp(dir=self.folder)
        return {**os.environ, "HOME": folder, "TMPDIR": folder}

    def aicplan(self, *words, check=True, env=None):
        done = subprocess.run([self.args.aicplan, *words], capture_output=True, text=True, env=env)
        if check and done.returncode != 0:
            sys.exit("aicplan %s: %s" % (words[0], (done.stderr or done.stdout)[-2000:]))
        return done.stdout

    def described(self, expression):
        return json.loads(self.aicplan("describe", self.plan, "--var-file", self.vars, "--eval", expression, "--json"))

    def draw(self):
        """Writes the plan with the drawn cases."""
        a = self.args
        shipped = os.path.join(PLANS, "h200_%s.hcl" % a.backend)
        stages = json.loads(self.aicplan("describe", shipped, "--json"))["stages"]
        grid = next((s["address"] for s in stages if s["kind"] == "grid" and s["address"].endswith(".grid." + a.op)), None)
        if grid is None:
            sys.exit("the plan of %s has no op %s" % (a.backend, a.op))
        cases = [json.loads(line) for line in self.aicplan("cases", shipped, grid, "--json").splitlines()]
        if a.where:
            cases = [c for c in cases if eval(a.where, {}, c)]  # the caller's own expression
        if not cases:
            sys.exit("no case of %s has %s" % (grid, a.where or "a row"))
        drawn = random.Random(a.seed).sample(cases, min(a.cases + 20 * a.workers, len(cases)))
        spare = max(len(drawn) - a.cases, min(3 * a.workers, len(drawn) // 4))
        if spare < a.workers:
            sys.exit("%d cases are too few for %d workers: take fewer with --workers" % (len(drawn), a.workers))
        names = [n for n in cases[0] if n not in ("case_id", "status", "sweep")]
        visited = cases[0].get("sweep", [])
        drawn = [{n: c[n] for n in names} for c in drawn]
        cases, others = drawn[:-spare], drawn[-spare:]

        # The plan is first written without its cases, to ask for the binding.
        self.write(cases[:1], [], list(cases[0]), {}, "")
        self.binding = self.described('module.frameworks.bindings["%s"]' % a.op)
        if "args" not in self.binding:
            sys.exit("the binding of %s looks its cases up; only bindings with args can be compared" % a.op)
        words = self.binding["args"]
        used = {w if isinstance(w, str) else w.get("column") for w in words if isinstance(w, (str, dict))}
        columns = [n for n in names if n in used or len({json.dumps(c[n]) for c in cases}) > 1]
        constants = {n: cases[0][n] for n in names if n not in columns}
        swept = next((w["sweep"] for w in words if isinstance(w, dict) and "sweep" in w), None)
        points, sweep = [p[swept] for p in visited], ""
        if swept:
            sweep = '\n  sweep "%s" { values = %s }' % (swept, json.dumps(points))
        self.cases = [{n: c[n] for n in columns} for c in cases]

        def argument(word, case):
            if isinstance(word, str):
                return case[word]
            if not isinstance(word, dict):
                return word
            if "sweep" in word:
                return points
            if "value" in word:
                return word["value"]
            return word["map"][str(case[word["column"]])] if "map" in word else case[word["column"]]

        def call(case):
            return [argument(w, {**constants, **case}) for w in words]

        self.calls = [call(c) for c in self.cases]
        self.first = examples(self.calls)
        first = [c for c in self.cases if call(c) in self.first]
        for other in others:  # those that do not change for which cases the workers compile
            if len(first) < 3 * a.workers and all(e in self.first for e in examples([call(c) for c in (*first, other)])):
                first.append(other)
        if len(first) < a.workers:
            sys.exit("only %d cases are left for %d workers to begin with: take fewer with --workers" % (len(first), a.workers))
        self.write(self.cases, [{n: c[n] for n in columns} for c in first], columns, constants, sweep)

    def write(self, cases, first, columns, constants, sweep):
        a, text = self.args, ""
        for name, values, more in (("first", "var.first", "measure { seed = 1 }"), ("bench", "var.case", "depends_on = [collect.first]")):
            text += STAGES % {
                "name": name, "op": a.op, "columns": json.dumps(columns), "constants": json.dumps(constants), "cases": values, "sweep": sweep,
                "more": more
            }
        text = PLAN % {
            "plans": os.path.relpath(PLANS, self.folder), "backend": a.backend, "checkout": os.path.abspath(a.checkout), "system": a.system,
            "workers": a.workers, "stages": text
        }
        for path, content in ((self.plan, text), (self.vars, "case = %s\nfirst = %s\n" % (json.dumps(cases), json.dumps(first)))):
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)

    def upstream(self, mode, indices):
        """{case: latencies} of the collectors' functions, their seconds, the number of failed cases, and the seconds with the start."""
        job = {
            "fills": self.binding.get("uninitialised") == "random", "root": os.path.abspath(self.args.checkout), "mode": mode,
            "module": self.binding["module"], "run": self.binding["run"], "calls": [[i, self.calls[i]] for i in indices],
            "first": self.first,
        }
        began = time.time()
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--upstream"], input=json.dumps(job), text=True,
                              stdout=subprocess.PIPE, check=True, cwd=self.folder, env=self.environment())
        out, rows = json.loads(done.stdout.splitlines()[-1]), {}
        for case, latencies in out["rows"]:  # collectors that sweep log their points one by one
            rows.setdefault(case, []).extend(latencies)
        return rows, out["seconds"], out["failed"], time.time() - began

    def apply(self, run):
        """{case: latencies} of a plan's rows, the seconds of their stage, those of the run, and the number of failed cases."""
        state = os.path.join(self.folder, "state%d" % run)
        words = ("--state-dir", state, "apply", self.plan, "--var-file", self.vars, "--auto-approve", "--json")
        events = [json.loads(line) for line in self.aicplan(*words, check=False, env=self.environment()).splitlines() if line.startswith("{")]
        when = datetime.datetime.fromisoformat
        at = {(e.get("type"), e.get("stage")): when(e["@timestamp"]) for e in events}
        if ("stage_end", "collect.bench") not in at:
            sys.exit("aicplan: no case could be measured in the first stage: %s" % events[-2:])
        rows = list(csv.DictReader(io.StringIO(self.aicplan("--state-dir", state, "show", "collect.bench", "--format", "csv"))))
        place = {json.dumps([str(v).lower() for v in c.values()]): i for i, c in enumerate(self.cases)}
        out = {}
        for r in rows:
            out.setdefault(place.get(json.dumps([r[n].lower() for n in self.cases[0]])), []).append(float(r["latency"]))
        begun, ended = [at[kind, "collect.bench"] for kind in ("stage_start", "stage_end")]
        return out, (ended - begun).total_seconds(), (ended - at["run_start", None]).total_seconds(), len(self.cases) - len(out)


def collectors():
    """The job on standard input, in a process of its own."""
    job = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr
    sys.path[:0] = [job["root"]] + [os.path.join(job["root"], "collector")] * (".sglang." in job["module"])
    import torch

    module = importlib.import_module(job["module"])
    run, own, rows, failed, current = getattr(module, job["run"]), module.benchmark_with_power, [], 0, []

    def timed(launch, seconds, tail):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        marks[0].record()
        launch()
        marks[1].record()
        torch.cuda.synchronize()
        n = max(2, int(seconds / max(marks[0].elapsed_time(marks[1]) / 1e3, 1e-6)))
        first = max(1, int(n * (1 - tail)))
        for i in range(n):
            if i == first:
                marks[1].record()
            launch()
        marks[2].record()
        torch.cuda.synchronize()
        return marks[1].elapsed_time(marks[2]) / (n - first)

    @contextlib.contextmanager
    def alone(device=None, kernel_func=None, **options):
        for _ in range(3):
            kernel_func()

        def captured(n):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(n):
                    kernel_func()
            return graph

        graph = captured(1)
        n = max(1, min(50, int(2e-4 / (timed(graph.replay, 2e-3, 0.5) / 1e3))))
        if n > 1:
            graph = captured(n)
        yield {"latency_ms": timed(graph.replay, 0.6, 0.4) / n, "power_stats": None, "throttled": False, "num_runs_executed": 6, "used_cuda_graph": True}

    @contextlib.contextmanager
    def timing(*args, **options):
        with filling.paused(), (own if job["mode"] == "own" else alone)(*args, **options) as result:
            yield result

    def log(item_list, *words, **options):
        rows.append([current[0], [float(item["latency"]) for item in item_list]])
        return True

    module.benchmark_with_power, module.log_perf = timing, log
    sys.path.append(HOST)
    from aicplan_host.filling import Filling

    filling = Filling(types.SimpleNamespace(seed=0))
    began = 0.0
    for n, (i, call) in enumerate([[0, call] for call in job["first"]] + job["calls"]):  # the first ones import and compile
        if n == len(job["first"]):
            rows.clear()
            failed, began = 0, time.time()
        current[:] = [i]
        try:
            with filling.preparing() if job["mode"] == "alone" and job["fills"] else contextlib.nullcontext():
                run(*call, perf_filename="bench.txt", device="cuda:0")
        except Exception as err:
            failed += 1
            print("%s: %s" % (call, err), file=sys.stderr)
    print(json.dumps({"rows": rows, "failed": failed, "seconds": time.time() - began}), file=out)


def main():
    if sys.argv[1:] == ["--upstream"]:
        sys.setrecursionlimit(100_000)
        threading.stack_size(512 << 20)
        thread = threading.Thread(target=collectors)
        thread.start()
        return thread.join()

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("aicplan", "checkout", "backend", "op"):
        parser.add_argument(name)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--where", default="", help="a Python expression over the columns, such as 'gemm_dtype == \"fp8\"'")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--truth", type=int, default=0)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--fresh", action="store_true", help="compile all kernels anew in every run")
    parser.add_argument("--system", default="h200_sxm")
    parser.add_argument("--plan-only", metavar="FOLDER", help="write the plan and the collectors' calls there, and measure nothing")
    args = parser.parse_args()
    args.aicplan = os.path.abspath(args.aicplan)

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, args.plan_only or folder)
        bench.draw()
        if args.plan_only:
            with open(os.path.join(args.plan_only, "calls.json"), "w", encoding="utf-8") as f:
                json.dump(bench.calls, f)
            return None
        everything = range(len(bench.cases))
        own, seconds, failed, whole = bench.upstream("own", everything)
        number = sum(map(len, own.values()))
        if number == 0:
            sys.exit("collectors: no rows, %d cases failed" % failed)
        rate = number / seconds
        print("collectors: %d rows in %.1f s (%.1f s with the start), %.2f/s, %d cases failed" % (number, seconds, whole, rate, failed))
        runs = []
        for run in range(args.runs):
            rows, seconds, whole, failed = bench.apply(run)
            number = sum(map(len, rows.values()))
            of = (number, seconds, whole, number / seconds, failed, number / seconds / rate)
            print("aicplan:    %d rows in %.1f s (%.1f s with the start), %.2f/s, %d cases failed: %.2f of the collectors' rate" % of)
            runs.append(rows)
        for other in runs[1:]:
            spread = [max(x, y) / min(x, y) for i in runs[0] for x, y in zip(runs[0][i], other.get(i, []))]
            print("max/min of two runs, p50 p95: " + percentiles(spread, 0.5, 0.95))
        if args.truth:
            some = list(everything)[:: max(1, len(everything) // args.truth)]
            once, again = [bench.upstream("alone", order)[0] for order in (some, some[::-1])]
            truth = {i: [math.sqrt(x * y) for x, y in zip(once[i], again[i])] for i in once if i in again}
            both = [y / x for i in truth for x, y in zip(once[i], again[i])]
            print("alone, second / first order, p5 p50 p95: " + percentiles(both, 0.05, 0.5, 0.95))
            for name, rows in [("aicplan", runs[0]), ("collectors", own)]:
                for above, least, most in (("above", 0.03, 1e9), ("below", 0, 0.03)):
                    over = [x / y for i, t in truth.items() for x, y in zip(rows.get(i, []), t) if least <= y < most]
                    print("%s / alone, %s 0.03 ms, p5 p50 p95 of %d: %s" % (name, above, len(over), percentiles(over, 0.05, 0.5, 0.95)))
        return None if own and all(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
