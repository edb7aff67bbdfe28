"""Collectors of wide expert parallelism: programs that start a process for each
GPU of one node or several, and write perf files.

One run of a program gives the rows of many cases. The op function starts it
through a launcher, waits, and takes the rows that answer its case, by the columns
that the case and the file share. A point that the program did not write fails;
nothing is filled in. Runs with the same words are made once in a worker.
"""

import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

_runs = {}  # rows by file name, or why there are none, by the words of the run

# The columns of a file that make its latency, in ms, and their factor.
_TIMES = {
    "wideep_context_mlp_perf": (("avg_ms",), 1.0),
    "wideep_generation_mlp_perf": (("avg_ms",), 1.0),
    "wideep_deepep_ll_perf": (("dispatch_avg_t_us", "combine_avg_t_us"), 1e-3),
    "wideep_deepep_normal_perf": (
        ("dispatch_transmit_us", "dispatch_notify_us", "combine_transmit_us", "combine_notify_us"), 1e-3,
    ),
}


def wideep(sweep, bench, table, command, collector, launcher=(), environ=None, timeout=3600, nodes=1, gpus_per_node=1, **case):
    here = str(pathlib.Path(__file__).resolve().parent)
    words = dict(case, collector=collector, nodes=nodes, gpus_per_node=gpus_per_node, ranks=nodes * gpus_per_node, here=here)
    rows = _rows(bench, words, command, launcher, environ or {}, timeout).get(table)
    if rows is None:
        raise RuntimeError(f"the collector has written no {table}")
    missing = []
    for point in sweep:
        want = dict(case, **point)
        found = [r for r in rows if all(_same(r[name], value) for name, value in want.items() if name in r)]
        if not found:
            missing.append(point)
            continue
        # The last one: collectors append, and what they wrote again replaces.
        yield dict(_row(table, found[-1]), **point, nodes=nodes, gpus_per_node=gpus_per_node)
    if missing:
        raise RuntimeError(f"the collector has written no row for {len(missing)} points, the first {json.dumps(missing[0])}")


def _row(table, line):
    names, factor = _TIMES.get(table, (("latency",), 1.0))
    row = {name: _value(text) for name, text in line.items() if name not in ("framework", "version", "device")}
    times = [row.get(name) for name in names]
    if not all(isinstance(t, (int, float)) and t > 0 for t in times):
        raise RuntimeError(f"{table} has a row without {' or '.join(names)}: {line}")
    row["latency"] = sum(times) * factor
    return row


def _rows(bench, words, command, launcher, environ, timeout):
    argv = [_fill(w, words) for w in [*launcher, *command]]
    key = json.dumps([argv, environ], sort_keys=True)
    if key not in _runs:
        try:
            _runs[key] = _run(bench, words, argv, environ, timeout)
        except RuntimeError as e:
            _runs[key] = e  # every point would wait for the same end
    if isinstance(_runs[key], RuntimeError):
        raise _runs[key]
    return _runs[key]


def _run(bench, words, argv, environ, timeout):
    # Ranks of other nodes write there too, so it is on the shared file system.
    output = tempfile.mkdtemp(prefix="wideep-", dir=os.environ.get("AICPLAN_WIDEEP_DIR") or os.getcwd())
    try:
        argv = [w.replace("{output}", output) for w in argv]
        env = {**os.environ, **environ, "WORLD_SIZE": str(words["ranks"])}
        print("starts", *argv, flush=True)
        log = pathlib.Path(output, "collector.log")
        with log.open("wb") as out:
            run = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True)
            try:
                code = run.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()
                code = f"nothing after {timeout} s, so it was ended"
        text = log.read_text(errors="replace")
        bench.attach("collector.log", text[-65536:], "text/plain")
        if code != 0:
            last = " / ".join(text.strip().splitlines()[-3:])
            raise RuntimeError(f"{argv[0]} ended with {code}: {last}")
        found = {}
        for path in sorted(pathlib.Path(output).rglob("*_perf.txt")):
            with path.open(newline="") as f:
                found.setdefault(path.name[: -len(".txt")], []).extend(csv.DictReader(f))
        return found
    finally:
        shutil.rmtree(output, ignore_errors=True)


def _fill(word, words):
    for name, value in words.items():
        word = word.replace("{" + name + "}", str(value))
    return word.replace("{case}", json.dumps(words, sort_keys=True))


def _value(text):
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            pass
    return text


def _same(text, value):
    return _value(text) == value or text == str(value)
