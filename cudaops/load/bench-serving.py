#!/usr/bin/env python3
"""The side-by-side table of serving load: aicplan, AIPerf and vLLM's bench
client against the same mock servers, on this machine, in one run.

    cudaops/load/bench-serving.py BINARY [-o FILE]

AIPERF names aiperf's program, VLLM the program of `vllm bench serve`; a tool
that is not there is left out and the table says so. Only the standard library
is needed. Columns:

    start     from starting the program to the first request at the server
    memory    the most that the program and all its processes held, RSS (PSS)
    requests  per second against a server without delays, at 1, 64 and 512
    TTFT, ITL the error of single requests: what the tool reports minus what the
              server knows (send of a token - receipt), by X-Request-ID; all
              requests, the first wave included
"""
import argparse, io, json, os, shutil, subprocess, sys, tempfile, threading, time, urllib.request

TOKENS = 20
RATES = {1: 2000, 64: 20000, 512: 20000}
PEER_RATES = {1: 200, 64: 1000, 512: 1500}
TRUTHS = {64: ("200ms", "20ms", "20ms", 640), 512: ("1000ms", "100ms", "100ms", 1536)}


class Server:
    def __init__(self, binary, *flags):
        self.file = tempfile.mktemp(prefix="aicplan-bench-")
        self.process = subprocess.Popen([binary, "mock-server", "-address-file", self.file, *flags], stdout=subprocess.DEVNULL)
        for _ in range(500):
            if os.path.exists(self.file):
                break
            time.sleep(0.02)
        with open(self.file) as f:
            self.address = f.read().strip()

    def truth(self):
        with urllib.request.urlopen(f"http://{self.address}/truth") as r:
            return {t["x_request_id"]: t for t in json.load(r) or []}

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
    rss = pss = 0
    for p in tree(pid):
        try:
            with open(f"/proc/{p}/smaps_rollup") as f:
                for line in f:
                    if line.startswith("Rss:"):
                        rss += int(line.split()[1])
                    elif line.startswith("Pss:"):
                        pss += int(line.split()[1])
        except OSError:
            pass
    return rss / 1024, pss / 1024


def run(command, cwd, env=None):
    """Runs a program; returns its start (ns), seconds and most memory."""
    began = time.time_ns()
    p = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    most, done = [0.0, 0.0], threading.Event()

    def watch():
        while not done.wait(0.05):
            most[:] = map(max, most, memory(p.pid))

    w = threading.Thread(target=watch)
    w.start()
    out, _ = p.communicate()
    done.set()
    w.join()
    if p.returncode not in (0, 3, 4):
        sys.exit(f"{' '.join(command)} ended with {p.returncode}:\n{out.decode()[-3000:]}")
    return began, (time.time_ns() - began) / 1e9, most, out.decode()


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
        r = run([self.binary, "apply", "-out-dir", os.path.join(folder, "out"), "bench.hcl"], folder)
        return r, os.path.join(folder, "out")


class AIPerf:
    name = "aiperf"

    def __init__(self, program, tokenizer):
        self.program, self.tokenizer = program, tokenizer

    def load(self, address, concurrency, requests, folder):
        out = os.path.join(folder, "out")
        r = run([self.program, "profile", "--model", "m", "--endpoint-type", "chat", "--streaming", "--url", "http://" + address,
                 "--synthetic-input-tokens-mean", "100", "--output-tokens-mean", str(TOKENS), "--concurrency", str(concurrency),
                 "--request-count", str(requests), "--tokenizer", self.tokenizer, "--use-server-token-count",
                 "--artifact-dir", out, "--ui-type", "none"], folder)
        return r, out


class VLLM:
    name = "vllm bench serve"

    def __init__(self, program, tokenizer):
        self.program, self.tokenizer = program, tokenizer

    def load(self, address, concurrency, requests, folder):
        out = os.path.join(folder, "out")
        r = run([self.program, "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", "http://" + address,
                 "--model", "m", "--tokenizer", self.tokenizer, "--dataset-name", "random", "--random-input-len", "100",
                 "--random-output-len", str(TOKENS), "--num-prompts", str(requests), "--max-concurrency", str(concurrency),
                 "--save-result", "--save-detailed", "--result-dir", out, "--result-filename", "result.json"], folder)
        return r, out


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
    path = os.path.join(out, "profile_export.jsonl")
    if not os.path.exists(path):
        return None
    with open(path) as f:
        for line in f:
            r = json.loads(line)
            t = truth.get(r["metadata"]["x_request_id"])
            if r.get("error") or not t or r["metadata"]["benchmark_phase"] != "profiling":
                continue
            m, sent = r["metrics"], t["sent_ns"]
            ttft.append(abs(m["time_to_first_token"]["value"] - (sent[0] - t["received_ns"]) / 1e6))
            if len(sent) > 1 and "inter_token_latency" in m:
                itl.append(abs(m["inter_token_latency"]["value"] - (sent[-1] - sent[0]) / 1e6 / (len(sent) - 1)))
    return ttft, itl


def quantile(v, q):
    v = sorted(v)
    return v[min(len(v) - 1, int(q * (len(v) - 1) + 0.5))] if v else float("nan")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("binary")
    a.add_argument("-o", dest="file")
    a.add_argument("-rounds", type=int, default=1)
    c = a.parse_args()
    binary = os.path.abspath(c.binary)
    tokenizer = os.environ.get("TOKENIZER", "")
    tools, absent = [Aicplan(binary)], []
    for cls, variable in ((AIPerf, "AIPERF"), (VLLM, "VLLM")):
        program = os.environ.get(variable) or ""
        if program and shutil.which(program) and tokenizer:
            tools.append(cls(shutil.which(program), os.path.abspath(tokenizer)))
        else:
            absent.append(f"{cls.name} was not run: {variable} or TOKENIZER (a folder with a tokenizer.json) is not set, or names nothing")
    rows = []
    for _ in range(c.rounds):
        for tool in tools:
            row = {"tool": tool.name}
            rates = RATES if tool.name == "aicplan" else PEER_RATES
            for n, requests in rates.items():
                with tempfile.TemporaryDirectory() as folder, Server(binary, "-tokens", str(TOKENS)) as s:
                    (_, _, most, _), out = tool.load(s.address, n, requests, folder)
                    row[f"requests/s at {n}"] = f"{rate_of(out):.0f}"
                    if n == 64:
                        row["memory MB at 64"] = f"{most[0]:.0f} ({most[1]:.0f})"
            for n, (ttft, itl, spread, requests) in TRUTHS.items():
                flags = ["-truth", "-ttft", ttft, "-itl", itl, "-ttft-spread", spread, "-token-spread", "2"]
                with tempfile.TemporaryDirectory() as folder, Server(binary, *flags) as s:
                    (began, _, _, _), out = tool.load(s.address, n, requests, folder)
                    truth = s.truth()
                    first = min(t["received_ns"] for t in truth.values())
                    if n == 64:
                        row["start s"] = f"{(first - began) / 1e9:.3f}"
                    e = errors(out, truth)
                    row[f"TTFT error ms at {n} p50/p99"] = "-" if e is None else f"{quantile(e[0], .5):.2f} / {quantile(e[0], .99):.2f}"
                    row[f"ITL error ms at {n} p50/p99"] = "-" if e is None else f"{quantile(e[1], .5):.4f} / {quantile(e[1], .99):.4f}"
            rows.append(row)
            print(json.dumps(row), file=sys.stderr)
    text = io.StringIO()
    names = list(rows[0])
    text.write("| " + " | ".join(names) + " |\n|" + "---|" * len(names) + "\n")
    for row in rows:
        text.write("| " + " | ".join(row.get(n, "-") for n in names) + " |\n")
    with open("/proc/loadavg") as f:
        text.write(f"\n{os.cpu_count()} processors, load average {f.read().split()[0]} at the end.\n")
    for line in absent:
        text.write(line + ".\n")
    print(text.getvalue())
    if c.file:
        with open(c.file, "w") as f:
            f.write(text.getvalue())


main()
