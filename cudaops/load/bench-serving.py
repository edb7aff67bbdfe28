#!/usr/bin/env python3
"""The side-by-side table of serving load: aicplan, AIPerf and vLLM's bench
client against the same mock servers, on this machine, in one run.

    cudaops/load/bench-serving.py BINARY [-o FILE] [-within SECONDS] [-quick] [-only NAME]

AIPERF names aiperf's program; VLLM names vLLM's program, or the python of its
environment. A tool that does not start is left out, and the table says why.
TOKENIZER is a folder with a tokenizer.json for all; without it a small one is
made. Only the standard library is needed here. The script ends within its time:
what was not measured by then is said. The figures:

    start     from starting the program to the first request at the server
    memory    at 64 open requests, 640 in all: the most that the program and all
              its processes held, RSS, then PSS, then memory of no file
    requests  per second against a server without delays, at 1, 64 and 512
    us        processor time per request of the client, its start included, and
              of the server: which of them was the bottleneck
    TTFT, ITL the error of single requests, p50 / p99: what the tool reports minus
              what the server knows (send of a token - receipt), by X-Request-ID;
              of all requests, and steady: without the first wave, as many as were
              sent at once
"""
import argparse
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TOKENS = 20
RATES = {1: 20000, 64: 20000, 512: 20000}
PEER_RATES = {1: 200, 64: 1000, 512: 1500}
TRUTHS = {64: ("200ms", "20ms", "20ms", 640), 512: ("1000ms", "100ms", "100ms", 1536)}
STARTS = 5  # of aicplan: a single one says little about 50 ms

# What aicplan is built to reach on two processors that do nothing else.
WANTED = [
    ("start s", "<=", 0.05),
    ("memory MB at 64", "<=", 40),
    ("requests/s at 1", ">=", 4000),
    ("requests/s at 64", ">=", 8000),
    ("requests/s at 512", ">=", 8000),
    ("TTFT error ms at 64, steady, p50", "<=", 0.4),
    ("TTFT error ms at 64, steady, p99", "<=", 10),
    ("TTFT error ms at 512, steady, p50", "<=", 0.4),
    ("TTFT error ms at 512, steady, p99", "<=", 10),
    ("ITL error ms at 64, p50", "<=", 0.005),
    ("ITL error ms at 512, p50", "<=", 0.005),
]

ends = time.time() + 1e9  # when the script must have ended
isl = 100  # tokens of a prompt


class Server:
    def __init__(self, binary, *flags):
        self.file = tempfile.mktemp(prefix="aicplan-bench-")
        self.process = subprocess.Popen([binary, "mock-server", "--address-file", self.file, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            if os.path.exists(self.file):
                break
            time.sleep(0.02)
        with open(self.file) as f:
            self.address = f.read().strip()

    def truth(self):
        with urllib.request.urlopen(f"http://{self.address}/truth") as r:
            return {t["x_request_id"]: t for t in json.load(r) or []}

    def cpu(self):
        """Seconds of processor time."""
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        if os.path.exists(self.file):
            os.remove(self.file)


def tree(pid):
    """pid and its descendants."""
    out, todo = [], [pid]
    while todo:
        p = todo.pop()
        out.append(p)
        for task in (os.listdir(f"/proc/{p}/task") if os.path.exists(f"/proc/{p}/task") else []):
            try:
                with open(f"/proc/{p}/task/{task}/children") as f:
                    todo += [int(c) for c in f.read().split()]
            except OSError:
                pass
    return out


def memory(pid):
    """RSS, PSS and memory of no file of a program and its processes, MB."""
    rss = pss = anon = 0
    for p in tree(pid):
        try:
            with open(f"/proc/{p}/smaps_rollup") as f:
                for line in f:
                    name, _, rest = line.partition(":")
                    if name in ("Rss", "Pss", "Anonymous"):
                        n = int(rest.split()[0])
                        rss, pss, anon = rss + n * (name == "Rss"), pss + n * (name == "Pss"), anon + n * (name == "Anonymous")
        except (OSError, IndexError, ValueError):
            pass
    return rss / 1024, pss / 1024, anon / 1024


class Run:
    """One run of a program."""

    def __init__(self, command, cwd, env=None):
        def used():
            u = resource.getrusage(resource.RUSAGE_CHILDREN)
            return u.ru_utime + u.ru_stime

        left = ends - time.time()
        if left <= 1:
            raise Failed("the time was over")
        before, self.began, self.most = used(), time.time_ns(), [0.0, 0.0, 0.0]
        p = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        done = threading.Event()

        def watch():
            while not done.wait(0.2):
                self.most[:] = map(max, self.most, memory(p.pid))

        w = threading.Thread(target=watch)
        w.start()
        late = False
        try:
            out, _ = p.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(p.pid, signal.SIGKILL)
            out, _ = p.communicate()
        done.set()
        w.join()
        if late:
            raise Failed(f"the time was over after {left:.0f} s of one run")
        self.cpu = used() - before
        if p.returncode not in (0, 3, 4):
            raise Failed(f"{' '.join(command)[:300]} ended with {p.returncode}:\n{out.decode(errors='replace')[-1500:]}")


class Failed(Exception):
    pass


PLAN = """
runtime "server" {
  kind      = "endpoint"
  url       = "%s"
  model     = "m"
  tokenizer = "%s"
}
grid "load" {
  op = "chat"
  axis "concurrency" { values = [%d] }
}
collect "load" {
  grid    = grid.load
  runtime = runtime.server
  load {
    requests    = %d
    isl         = %d
    osl         = %d
    cache_reset = "never"
  }
}
export "files" {
  input  = collect.load
  layout = "aiperf"
}
"""


class Aicplan:
    name = "aicplan"

    def __init__(self, binary, tokenizer):
        self.binary, self.tokenizer = binary, tokenizer

    def load(self, address, concurrency, requests, folder):
        with open(os.path.join(folder, "bench.hcl"), "w") as f:
            f.write(PLAN % (address, self.tokenizer, concurrency, requests, isl, TOKENS))
        r = Run([self.binary, "apply", "--out-dir", os.path.join(folder, "out"), "bench.hcl"], folder)
        return r, os.path.join(folder, "out")


class AIPerf:
    name = "aiperf"

    def __init__(self, program, tokenizer):
        self.program, self.tokenizer = program, tokenizer

    def load(self, address, concurrency, requests, folder):
        out = os.path.join(folder, "out")
        r = Run([self.program, "profile", "--model", "m", "--endpoint-type", "chat", "--streaming", "--url", "http://" + address,
                 "--synthetic-input-tokens-mean", str(isl), "--output-tokens-mean", str(TOKENS), "--concurrency", str(concurrency),
                 "--request-count", str(requests), "--tokenizer", self.tokenizer, "--use-server-token-count",
                 "--artifact-dir", out, "--ui-type", "none"], folder)
        return r, out


# vLLM's program imports what needs a GPU's libraries; its bench client does not.
VLLM_CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench_vllm_client.py")


class VLLM:
    name = "vllm bench serve"

    def __init__(self, program, tokenizer, say):
        self.tokenizer = tokenizer
        self.command = [program, "bench", "serve"]
        bare = os.path.basename(program).startswith("python")
        if bare or subprocess.run(self.command + ["--help"], capture_output=True, check=False).returncode != 0:
            self.command = [program if bare else os.path.join(os.path.dirname(program), "python"), VLLM_CLIENT]
            self.name = "vllm.benchmarks.serve"
            said = subprocess.run(self.command + ["--help"], capture_output=True, text=True, check=False)
            if said.returncode != 0:
                raise Failed((said.stderr.strip().splitlines() or ["it says nothing"])[-1])
            say("vllm.benchmarks.serve is vLLM's bench client alone: torch and the rest of vLLM, which need a GPU's libraries, are empty modules in that run")

    def load(self, address, concurrency, requests, folder):
        out = os.path.join(folder, "out")
        r = Run(self.command + ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", "http://" + address,
                "--model", "m", "--tokenizer", self.tokenizer, "--dataset-name", "random", "--random-input-len", str(isl),
                "--random-output-len", str(TOKENS), "--num-prompts", str(requests), "--max-concurrency", str(concurrency), "--request-id-prefix", "bench-",
                "--save-result", "--save-detailed", "--result-dir", out, "--result-filename", "result.json"], folder)
        return r, out


def small_tokenizer(python, folder):
    """A byte-level BPE that both peers read."""
    subprocess.run([python, "-c", """
import sys
from tokenizers import ByteLevelBPETokenizer
from transformers import PreTrainedTokenizerFast
t = ByteLevelBPETokenizer()
t.train_from_iterator(["the quick brown fox jumps over the lazy dog and runs far away "] * 50, vocab_size=600, special_tokens=["<|end|>"])
PreTrainedTokenizerFast(tokenizer_object=t._tokenizer, eos_token="<|end|>", pad_token="<|end|>").save_pretrained(sys.argv[1])
""", folder], check=True, capture_output=True)
    return folder


def rate_of(out):
    path = os.path.join(out, "profile_export_aiperf.json")
    if not os.path.exists(path):
        path = os.path.join(out, "result.json")
    with open(path) as f:
        d = json.load(f)
    v = d["request_throughput"]
    return v["avg"] if isinstance(v, dict) else v


def errors(out, truth):
    """Errors of TTFT and ITL in ms by request, in the order of receipt."""
    found = []

    def compare(t, first, between):
        sent = t["sent_ns"]
        itl = None
        if len(sent) > 1 and between is not None:
            itl = abs(between - (sent[-1] - sent[0]) / 1e6 / (len(sent) - 1))
        found.append((t["received_ns"], abs(first - (sent[0] - t["received_ns"]) / 1e6), itl))

    path = os.path.join(out, "profile_export.jsonl")
    if os.path.exists(path):
        with open(path) as f:
            for line in f:
                r = json.loads(line)
                t = truth.get(r["metadata"]["x_request_id"])
                if r.get("error") or not t or r["metadata"]["benchmark_phase"] != "profiling":
                    continue
                m = r["metrics"]
                compare(t, m["time_to_first_token"]["value"], m.get("inter_token_latency", {}).get("value"))
    else:
        with open(os.path.join(out, "result.json")) as f:
            d = json.load(f)
        for i, first in enumerate(d["ttfts"]):
            t = truth.get(f"bench-{i}")
            if t and t["sent_ns"] and not d["errors"][i]:
                gaps = d["itls"][i]
                compare(t, first * 1e3, sum(gaps) * 1e3 / len(gaps) if gaps else None)
    if not found:
        raise Failed("no request of its report is one that the server knows")
    return sorted(found)


def quantile(v, q):
    v = sorted(v)
    return v[min(len(v) - 1, int(q * (len(v) - 1) + 0.5))] if v else float("nan")


def spread(row, name, values, digits):
    for q, label in ((0.5, "p50"), (0.99, "p99")):
        row[f"{name}, {label}"] = f"{quantile(values, q):.{digits}f}"


def measure(tool, row, binary, scale):
    own = tool.name == "aicplan"
    for n, requests in (RATES if own else PEER_RATES).items():
        requests = max(2 * n, requests // scale)
        with tempfile.TemporaryDirectory() as folder, Server(binary, "-tokens", str(TOKENS)) as s:
            r, out = tool.load(s.address, n, requests, folder)
            row[f"requests/s at {n}"] = f"{rate_of(out):.0f}"
            row[f"us/request at {n}, client"] = f"{1e6 * r.cpu / requests:.0f}"
            row[f"us/request at {n}, server"] = f"{1e6 * s.cpu() / requests:.0f}"
    for n, (ttft, itl, vary, requests) in TRUTHS.items():
        flags = ["--truth", "--ttft", ttft, "--itl", itl, "--ttft-spread", vary, "--token-spread", "2"]
        with tempfile.TemporaryDirectory() as folder, Server(binary, *flags) as s:
            r, out = tool.load(s.address, n, max(2 * n, requests // scale), folder)
            truth = s.truth()
            e = errors(out, truth)
        if n == 64:
            first = min(t["received_ns"] for t in truth.values())
            row["start s"] = f"{(first - r.began) / 1e9:.3f}"
            row["memory MB at 64"] = " / ".join(f"{m:.0f}" for m in r.most)
        spread(row, f"TTFT error ms at {n}", [t for _, t, _ in e], 3)
        spread(row, f"TTFT error ms at {n}, steady", [t for _, t, _ in e[n:]], 3)
        spread(row, f"ITL error ms at {n}", [i for _, _, i in e if i is not None], 4)
    if own:
        starts = []
        for _ in range(STARTS):
            with tempfile.TemporaryDirectory() as folder, Server(binary, "--truth") as s:
                r, _ = tool.load(s.address, 1, 1, folder)
                starts.append((min(t["received_ns"] for t in s.truth().values()) - r.began) / 1e9)
        row["start s"] = f"{quantile(starts, 0.5):.3f}"


def reached(row):
    """The table of what is wanted of aicplan."""
    lines = ["| figure | wanted | measured | reached |", "|---|---|---|---|"]
    for name, sign, limit in WANTED:
        text = row.get(name, "not measured")
        try:
            value = float(text.split(" ")[0])
            ok = "yes" if (value <= limit if sign == "<=" else value >= limit) else "no"
        except ValueError:
            ok = "unknown"
        lines.append(f"| {name} | {sign} {limit:g} | {text} | {ok} |")
    return "\n".join(lines) + "\n"


def usable():
    """Seconds of a processor's second that a busy program gets: below 0.9 the
    machine has other work, and wall times are no figures."""
    began, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - began < 0.5:
        pass
    return (time.process_time() - cpu) / (time.monotonic() - began)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("binary")
    a.add_argument("-o", dest="file")
    a.add_argument("-within", type=float, default=460, metavar="SECONDS", help="end by then, with what was measured (460)")
    a.add_argument("-quick", action="store_true", help="a tenth of the requests: to try the script")
    a.add_argument("-only", help="one tool alone: aicplan, aiperf or vllm")
    a.add_argument("-isl", type=int, default=100, help="tokens of a prompt (100)")
    c = a.parse_args()
    global isl
    isl = c.isl
    binary, began = os.path.abspath(c.binary), time.time()
    scale = 10 if c.quick else 1
    with open("/proc/loadavg") as f:
        load_before = f.read().split()[0]
    share = usable()
    scratch = tempfile.TemporaryDirectory()
    tokenizer = os.path.abspath(os.environ["TOKENIZER"]) if os.environ.get("TOKENIZER") else ""
    tools, absent = [], []
    if c.only in (None, "aicplan"):
        # The tokenizer of the tests has the splitting rules of Llama 3.
        own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer", "testdata", "llama3.json")
        tools.append(Aicplan(binary, tokenizer or own))
    for cls, variable in ((AIPerf, "AIPERF"), (VLLM, "VLLM")):
        if c.only not in (None, variable.lower()):
            continue
        program = shutil.which(os.environ.get(variable) or "")
        if not program:
            absent.append(f"{cls.name} was not run: {variable} names no program")
            continue
        program = os.path.abspath(program)  # runs are in folders of their own
        try:
            tokenizer = tokenizer or small_tokenizer(os.path.join(os.path.dirname(program), "python"), os.path.join(scratch.name, "tokenizer"))
            tools.append(cls(program, tokenizer, absent.append) if cls is VLLM else cls(program, tokenizer))
        except (Failed, subprocess.CalledProcessError, OSError) as e:
            absent.append(f"{cls.name} was not run: it does not start ({e})")
    rows = []
    for left, tool in zip(range(len(tools), 0, -1), tools):
        # No tool takes the time of the next.
        global ends
        ends = time.time() + (began + c.within - time.time()) / left
        row = {"tool": tool.name}
        try:
            measure(tool, row, binary, scale)
        except (Failed, OSError, ValueError, KeyError) as e:
            absent.append(f"{tool.name}, what is missing of it: {e}")
        rows.append(row)
        print(json.dumps(row), file=sys.stderr)
    text = io.StringIO()
    names = []
    for row in rows:
        names += [n for n in row if n not in names]
    for name in names:  # a line for each figure: the tools stand side by side
        text.write("| " + name.replace("tool", "figure") + " | " + " | ".join(row.get(name, "-") for row in rows) + " |\n")
        if name == "tool":
            text.write("|" + "---|" * (len(rows) + 1) + "\n")
    text.write("\nMemory is RSS / PSS / memory of no file.\n")
    if rows and rows[0]["tool"] == "aicplan":
        text.write("\n" + reached(rows[0]))
    with open("/proc/loadavg") as f:
        text.write(f"\n{os.cpu_count()} processors; load average {load_before} before and {f.read().split()[0]} after; a busy program got "
                   f"{100 * share:.0f} % of a processor before; {time.time() - began:.0f} s.\n")
    if share < 0.9:
        text.write("The machine had other work: take processor times and memory from this table, and no wall times.\n")
    for line in absent:
        text.write(line + ".\n")
    print(text.getvalue())
    if c.file:
        with open(c.file, "w") as f:
            f.write(text.getvalue())


main()
