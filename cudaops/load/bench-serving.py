#!/usr/bin/env python3
"""The side-by-side table of serving load: aicplan, AIPerf and vLLM's bench
client against the same mock servers, on this machine, in one run.

    cudaops/load/bench-serving.py BINARY [-o FILE] [-quick] [-only NAME]

AIPERF names aiperf's program; VLLM names vLLM's program, or the python of its
environment. A tool that does not start is left out, and the table says why.
TOKENIZER is a folder with a tokenizer.json for them; without it a small one is
made. Only the standard library is needed here. Columns:

    start     from starting the program to the first request at the server
    memory    at 64 open requests, 640 in all: the most that the program and all
              its processes held, RSS, then PSS, then memory of no file
    requests  per second against a server without delays, at 1, 64 and 512, and
              the processor time per request of the client and of the server
    TTFT, ITL the error of single requests: what the tool reports minus what the
              server knows (send of a token - receipt), by X-Request-ID; all
              requests, the first wave included. p50 / p99
"""
import argparse
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TOKENS = 20
RATES = {1: 2000, 64: 20000, 512: 20000}
PEER_RATES = {1: 200, 64: 1000, 512: 1500}
TRUTHS = {64: ("200ms", "20ms", "20ms", 640), 512: ("1000ms", "100ms", "100ms", 1536)}


class Server:
    def __init__(self, binary, *flags):
        self.file = tempfile.mktemp(prefix="aicplan-bench-")
        self.process = subprocess.Popen([binary, "mock-server", "-address-file", self.file, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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

        before, self.began, self.most = used(), time.time_ns(), [0.0, 0.0, 0.0]
        p = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        done = threading.Event()

        def watch():
            while not done.wait(0.2):
                self.most[:] = map(max, self.most, memory(p.pid))

        w = threading.Thread(target=watch)
        w.start()
        out, _ = p.communicate()
        done.set()
        w.join()
        self.cpu = used() - before
        if p.returncode not in (0, 3, 4):
            raise Failed(f"{' '.join(command)[:300]} ended with {p.returncode}:\n{out.decode(errors='replace')[-1500:]}")


class Failed(Exception):
    pass


PLAN = """
runtime "server" {
  kind  = "endpoint"
  url   = "%s"
  model = "m"
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
    isl         = 100
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

    def __init__(self, binary):
        self.binary = binary

    def load(self, address, concurrency, requests, folder):
        with open(os.path.join(folder, "bench.hcl"), "w") as f:
            f.write(PLAN % (address, concurrency, requests, TOKENS))
        r = Run([self.binary, "apply", "-out-dir", os.path.join(folder, "out"), "bench.hcl"], folder)
        return r, os.path.join(folder, "out")


class AIPerf:
    name = "aiperf"

    def __init__(self, program, tokenizer):
        self.program, self.tokenizer = program, tokenizer

    def load(self, address, concurrency, requests, folder):
        out = os.path.join(folder, "out")
        r = Run([self.program, "profile", "--model", "m", "--endpoint-type", "chat", "--streaming", "--url", "http://" + address,
                 "--synthetic-input-tokens-mean", "100", "--output-tokens-mean", str(TOKENS), "--concurrency", str(concurrency),
                 "--request-count", str(requests), "--tokenizer", self.tokenizer, "--use-server-token-count",
                 "--artifact-dir", out, "--ui-type", "none"], folder)
        return r, out


# vLLM's program imports what needs a GPU's libraries; its bench client does not.
VLLM_CLIENT = "import argparse, vllm.benchmarks.serve as s; p = argparse.ArgumentParser(); s.add_cli_args(p); s.main(p.parse_args())"


class VLLM:
    name = "vllm bench serve"

    def __init__(self, program, tokenizer):
        self.tokenizer = tokenizer
        python = os.path.join(os.path.dirname(program), "python")
        self.command = [program, "bench", "serve"]
        if os.path.basename(program).startswith("python") or subprocess.run(self.command + ["--help"], capture_output=True, check=False).returncode != 0:
            self.command = [program if os.path.basename(program).startswith("python") else python, "-c", VLLM_CLIENT]
            self.name = "vllm.benchmarks.serve"
            said = subprocess.run(self.command + ["--help"], capture_output=True, text=True, check=False)
            if said.returncode != 0:
                raise Failed((said.stderr.strip().splitlines() or ["it says nothing"])[-1])

    def load(self, address, concurrency, requests, folder):
        out = os.path.join(folder, "out")
        r = Run(self.command + ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", "http://" + address,
                "--model", "m", "--tokenizer", self.tokenizer, "--dataset-name", "random", "--random-input-len", "100",
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
    """Errors of TTFT and ITL in ms, by request."""
    ttft, itl = [], []

    def compare(t, first, between):
        sent = t["sent_ns"]
        ttft.append(abs(first - (sent[0] - t["received_ns"]) / 1e6))
        if len(sent) > 1 and between is not None:
            itl.append(abs(between - (sent[-1] - sent[0]) / 1e6 / (len(sent) - 1)))

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
        return ttft, itl
    with open(os.path.join(out, "result.json")) as f:
        d = json.load(f)
    for i, first in enumerate(d["ttfts"]):
        t = truth.get(f"bench-{i}")
        if t and t["sent_ns"] and not d["errors"][i]:
            gaps = d["itls"][i]
            compare(t, first * 1e3, sum(gaps) * 1e3 / len(gaps) if gaps else None)
    return ttft, itl


def quantile(v, q):
    v = sorted(v)
    return v[min(len(v) - 1, int(q * (len(v) - 1) + 0.5))] if v else float("nan")


def measure(tool, row, binary, scale):
    for n, requests in (RATES if tool.name == "aicplan" else PEER_RATES).items():
        requests = max(2 * n, requests // scale)
        with tempfile.TemporaryDirectory() as folder, Server(binary, "-tokens", str(TOKENS)) as s:
            r, out = tool.load(s.address, n, requests, folder)
            row[f"requests/s at {n}"] = f"{rate_of(out):.0f}"
            if n == 64:
                row["client + server us/request"] = f"{1e6 * r.cpu / requests:.0f} + {1e6 * s.cpu() / requests:.0f}"
    for n, (ttft, itl, spread, requests) in TRUTHS.items():
        flags = ["-truth", "-ttft", ttft, "-itl", itl, "-ttft-spread", spread, "-token-spread", "2"]
        with tempfile.TemporaryDirectory() as folder, Server(binary, *flags) as s:
            r, out = tool.load(s.address, n, max(n, requests // scale), folder)
            truth = s.truth()
            first = min(t["received_ns"] for t in truth.values())
            if n == 64:
                row["start s"] = f"{(first - r.began) / 1e9:.3f}"
                row["memory MB at 64"] = " / ".join(f"{m:.0f}" for m in r.most)
            e = errors(out, truth)
            row[f"TTFT error ms at {n}"] = f"{quantile(e[0], .5):.2f} / {quantile(e[0], .99):.2f}"
            row[f"ITL error ms at {n}"] = f"{quantile(e[1], .5):.4f} / {quantile(e[1], .99):.4f}"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("binary")
    a.add_argument("-o", dest="file")
    a.add_argument("-rounds", type=int, default=1)
    a.add_argument("-quick", action="store_true", help="a tenth of the requests: to try the script")
    a.add_argument("-only", help="one tool alone: aicplan, aiperf or vllm")
    c = a.parse_args()
    binary, began = os.path.abspath(c.binary), time.time()
    scale = 10 if c.quick else 1
    with open("/proc/loadavg") as f:
        load_before = f.read().split()[0]
    scratch = tempfile.TemporaryDirectory()
    tokenizer = os.path.abspath(os.environ["TOKENIZER"]) if os.environ.get("TOKENIZER") else ""
    tools, absent = [], []
    if c.only in (None, "aicplan"):
        tools.append(Aicplan(binary))
    for cls, variable in ((AIPerf, "AIPERF"), (VLLM, "VLLM")):
        if c.only not in (None, variable.lower()):
            continue
        program = shutil.which(os.environ.get(variable) or "")
        if not program:
            absent.append(f"{cls.name} was not run: {variable} names no program")
            continue
        try:
            tokenizer = tokenizer or small_tokenizer(os.path.join(os.path.dirname(program), "python"), os.path.join(scratch.name, "tokenizer"))
            tools.append(cls(program, tokenizer))
        except (Failed, subprocess.CalledProcessError, OSError) as e:
            absent.append(f"{cls.name} was not run: it does not start ({e})")
    rows = []
    for _ in range(c.rounds):
        for tool in tools:
            row = {"tool": tool.name}
            try:
                measure(tool, row, binary, scale)
            except Failed as e:
                absent.append(f"{tool.name} failed: {e}")
            rows.append(row)
            print(json.dumps(row), file=sys.stderr)
    text = io.StringIO()
    names = ["tool"]
    for row in rows:
        names += [n for n in row if n not in names]
    text.write("| " + " | ".join(names) + " |\n|" + "---|" * len(names) + "\n")
    for row in rows:
        text.write("| " + " | ".join(row.get(n, "-") for n in names) + " |\n")
    with open("/proc/loadavg") as f:
        text.write(f"\n{os.cpu_count()} processors; load average {load_before} before and {f.read().split()[0]} after; {time.time() - began:.0f} s.\n")
    for line in absent:
        text.write(line + ".\n")
    print(text.getvalue())
    if c.file:
        with open(c.file, "w") as f:
            f.write(text.getvalue())


main()
