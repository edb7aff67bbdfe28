#!/usr/bin/env python3
"""How well rows of this machine's processor repeat, beside a loop of numpy over
the same shapes in the same minutes: what differs in both is the machine.

    cudaops/cpu/bench-numpy.py BINARY [-runs N] [--json FILE]

Runs plans/quickstart.hcl so often, each time with an empty state folder and with
the loop behind it, and prints max/min of every case over the runs. Needs numpy.
Rows of a table are judged (p50 1.05, p95 1.15) where numpy's loop over its cases
holds 1.05 itself: products tell of the cores, and arrays of caches and memory.
Exit codes: 0 all judged and held, 1 one was missed, 3 one was not judged, 2 cannot run.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

VISITS = 3  # of the loop to every shape, with all others between them
VISIT_SECONDS = 0.02
P50, P95 = 1.05, 1.15
TABLES = {"gemm": ("gemm_dtype", "m", "n", "k"), "memory": ("kernel", "size_bytes")}


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-2000:])
        sys.stderr.write("%s: exit code %d\n" % (" ".join(command), done.returncode))
        sys.exit(2)
    return done.stdout


def aicplan(binary, folder):
    """The latencies of one run of the quickstart, by table and case."""
    state = ["--state-dir", os.path.join(folder, "state")]
    call(binary, "apply", "plans/quickstart.hcl", *state, "--out-dir", os.path.join(folder, "out"), "--no-color")
    found = {}
    for table, key in TABLES.items():
        text = call(binary, "show", 'module.measured["%s"].gate.op' % table, *state, "--format", "csv")
        found[table] = {tuple(row[k] for k in key): float(row["latency"]) for row in csv.DictReader(io.StringIO(text))}
    return found


def product(numpy, rng, case):
    dtype, m, n, k = case[0], *map(int, case[1:])
    x, w = (rng.standard_normal(size).astype(dtype) for size in ((m, k), (n, k)))
    return lambda: numpy.matmul(x, w.T)


def stream(numpy, rng, case):
    kernel, count = case[0], int(case[1]) // 8
    a, b, c = rng.standard_normal(count), rng.standard_normal(count), numpy.empty(count)

    def triad():
        numpy.multiply(b, 3.0, out=c)
        numpy.add(a, c, out=c)

    return {
        "copy": lambda: numpy.copyto(c, a),
        "scale": lambda: numpy.multiply(a, 3.0, out=c),
        "add": lambda: numpy.add(a, b, out=c),
        "triad": triad,
    }[kernel]


LOOPS = {"gemm": product, "memory": stream}


def loop(numpy, table, cases):
    """The fastest of some visits to every case, each the median of its time."""
    rng = numpy.random.default_rng(0)
    best = {}
    for turn in range(VISITS):
        for case in cases if turn % 2 == 0 else reversed(cases):
            run = LOOPS[table](numpy, rng, case)
            run()
            took, began = [], time.perf_counter()
            while not took or time.perf_counter() - began < VISIT_SECONDS:
                at = time.perf_counter()
                run()
                took.append(time.perf_counter() - at)
            best[case] = min(best.get(case, 1e9), sorted(took)[len(took) // 2])
    return best


def spread(runs):
    """p50, p95 and the largest of max/min over the runs."""
    ratios = sorted(max(r[case] for r in runs) / min(r[case] for r in runs) for case in runs[0])
    return {"cases": len(ratios), "p50": ratios[len(ratios) // 2], "p95": ratios[int(0.95 * (len(ratios) - 1) + 0.5)], "max": ratios[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("binary")
    parser.add_argument("-runs", type=int, default=3)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    if options.runs < 2:
        sys.exit("-runs %d: it takes two runs to differ" % options.runs)
    try:
        import numpy
    except ImportError:
        sys.stderr.write("%s has no numpy: say which interpreter has it, as make bench-numpy NUMPY=PYTHON\n" % sys.executable)
        sys.exit(2)
    runs = []
    for number in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            found = aicplan(os.path.abspath(options.binary), folder)
        for table in TABLES:
            found["numpy_" + table] = loop(numpy, table, sorted(found[table]))
        runs.append(found)
        sys.stderr.write("run %d of %d\n" % (number + 1, options.runs))
    result = {name: spread([r[name] for r in runs]) for name in runs[0]}
    print("max/min of every case over %d runs" % options.runs)
    print("%-20s %6s %7s %7s %7s" % ("", "cases", "p50", "p95", "max"))
    verdicts = []
    for table in TABLES:
        for name, title in (("numpy_" + table, "numpy, "), (table, "aicplan, ")):
            s = result[name]
            print("%-20s %6d %7.3f %7.3f %7.3f" % (title + table, s["cases"], s["p50"], s["p95"], s["max"]))
        mine = result[table]
        mine["judged"] = result["numpy_" + table]["p50"] <= P50
        mine["held"] = (mine["p50"] <= P50 and mine["p95"] <= P95) if mine["judged"] else None
        verdicts.append(mine["held"])
        if mine["judged"]:
            print("numpy holds %.2f: rows of %s %s %.2f / %.2f." % (P50, table, "hold" if mine["held"] else "miss", P50, P95))
        else:
            print("%s is not judged: numpy does not hold %.2f either, so this machine was disturbed." % (table, P50))
    if options.json:
        with open(options.json, "w") as f:
            json.dump(result, f, indent=1)
    sys.exit(1 if False in verdicts else 3 if None in verdicts else 0)


if __name__ == "__main__":
    main()
