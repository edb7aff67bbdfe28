#!/usr/bin/env python3
"""How well rows of this machine's processor repeat, beside a loop of numpy over
the same shapes in the same minutes: what differs in both is the machine.

    cudaops/cpu/bench-numpy.py BINARY [-runs N] [-json FILE]

Runs plans/quickstart.hcl so often, each time with an empty state folder and with
the loop behind it, and prints max/min of every case over the runs. Needs numpy.
Rows of aicplan are judged (p50 1.05, p95 1.15) where numpy holds 1.05 itself.
Exit codes: 0 judged and held, 1 judged and missed, 3 not judged, 2 cannot run.
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
    state = ["-state-dir", os.path.join(folder, "state")]
    call(binary, "apply", "plans/quickstart.hcl", *state, "-out-dir", os.path.join(folder, "out"), "-no-color")
    found = {}
    for table, key in TABLES.items():
        text = call(binary, "show", 'module.measured["%s"].gate.op' % table, *state, "-format", "csv")
        found[table] = {tuple(row[k] for k in key): float(row["latency"]) for row in csv.DictReader(io.StringIO(text))}
    return found


def loop(numpy, shapes):
    """The fastest of some visits to every shape, each the median of its time."""
    rng = numpy.random.default_rng(0)
    best = {}
    for turn in range(VISITS):
        for shape in shapes if turn % 2 == 0 else reversed(shapes):
            dtype, m, n, k = shape[0], *map(int, shape[1:])
            x, w = (rng.standard_normal(size).astype(dtype) for size in ((m, k), (n, k)))
            numpy.matmul(x, w.T)
            took, began = [], time.perf_counter()
            while not took or time.perf_counter() - began < VISIT_SECONDS:
                at = time.perf_counter()
                numpy.matmul(x, w.T)
                took.append(time.perf_counter() - at)
            best[shape] = min(best.get(shape, 1e9), sorted(took)[len(took) // 2])
    return best


def spread(runs):
    """p50, p95 and the largest of max/min over the runs."""
    ratios = sorted(max(r[case] for r in runs) / min(r[case] for r in runs) for case in runs[0])
    return {"cases": len(ratios), "p50": ratios[len(ratios) // 2], "p95": ratios[int(0.95 * (len(ratios) - 1) + 0.5)], "max": ratios[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("binary")
    parser.add_argument("-runs", type=int, default=3)
    parser.add_argument("-json", default="")
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
        found["numpy"] = loop(numpy, sorted(found["gemm"]))
        runs.append(found)
        sys.stderr.write("run %d of %d\n" % (number + 1, options.runs))
    result = {table: spread([r[table] for r in runs]) for table in ("numpy", *TABLES)}
    print("max/min of every case over %d runs" % options.runs)
    print("%-20s %6s %7s %7s %7s" % ("", "cases", "p50", "p95", "max"))
    for table, s in result.items():
        name = table if table == "numpy" else "aicplan, " + table
        print("%-20s %6d %7.3f %7.3f %7.3f" % (name, s["cases"], s["p50"], s["p95"], s["max"]))
    result["judged"] = result["numpy"]["p50"] <= P50
    result["held"] = all(result[t]["p50"] <= P50 and result[t]["p95"] <= P95 for t in TABLES) if result["judged"] else None
    if result["judged"]:
        print("numpy holds %.2f: rows %s %.2f / %.2f." % (P50, "hold" if result["held"] else "miss", P50, P95))
    else:
        print("Not judged: numpy does not hold %.2f either, so this machine was disturbed." % P50)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(result, f, indent=1)
    sys.exit({True: 0, False: 1, None: 3}[result["held"]])


if __name__ == "__main__":
    main()
