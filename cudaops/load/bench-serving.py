#!/usr/bin/env python3
"""Serving load of aicplan, AIPerf and a minimal epoll client, in one interleaved run on this machine.

    cudaops/load/bench-serving.py BINARY [-o FILE] [-within SECONDS] [-quick]

AIPERF names aiperf's program; without it, its figures are missing. CC names a C compiler (cc) for
testdata/limit.c: a server and a client with one thread each, which show what the machine can do. TOKENIZER
names a tokenizer.json that is used instead of a small one. Only Python's standard library is needed. The
result is one table: figure, bound, measured, reached. Every client has the same tokenizer and prompt lengths.
Rates are medians of interleaved rounds. Each rate that is divided by that of the epoll client is measured between two
runs of the epoll client, and the median of these ratios counts, because other work on the machine changes all rates.

    rate      requests/s against a server that responds at once, by the report of the client
    us        processor time per request: of the client's process with its start and its files
    TTFT, ITL the error of single requests, p50 / p99: what the client reports minus what the server knows
              (send of a token - receipt), by X-Request-ID, without the first wave
    start     from starting the program to the first request at the server
    memory    largest resident memory of the program and its processes

The exit code is 0 if every bound is reached, 1 if one is not, and 2 if one could not be measured.
"""
import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = os.environ.get("TOKENIZER") or os.path.join(HERE, "tokenizer", "testdata", "llama3.json")
TOKENS = 20
ROUNDS = 3
PAIRS = 5  # rounds of the rates that are compared with the epoll client
STARTS = 5

# Requests of one run by connections and tokens of a prompt.
RATES = {(1, 100): 15000, (64, 100): 40000, (512, 100): 40000, (2048, 100): 40000, (64, 8000): 20000, (64, 32000): 6000}
PEER_RATES = {(1, 100): 150, (64, 100): 1500, (512, 100): 2000, (2048, 100): 4096, (64, 8000): 640}

# TTFT, time between tokens and spread of TTFT of the server, and the number of requests, by connections.
TRUTHS = {1: ("50ms", "5ms", "10ms", 80), 64: ("200ms", "20ms", "20ms", 640), 512: ("1000ms", "100ms", "100ms", 1536),
          2048: ("2000ms", "200ms", "200ms", 4096)}
LENGTHS = (100, 8000)

# A difference of TTFT errors below this is not a difference, in ms.
RESOLUTION = 0.02


class Failed(Exception):
    pass


class Clock:
    """The time that is left."""

    def __init__(self, within):
        self.ends = time.time() + within

    def left(self, least=1):
        if (s := self.ends - time.time()) < least:
            raise Failed("the time was over")
        return s


class Server:
    """A running server. command takes the name of the file for its address."""

    def __init__(self, *command):
        self.file = tempfile.mktemp(prefix="aicplan-bench-")
        self.process = subprocess.Popen([w.replace("{file}", self.file) for w in command], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for _ in range(500):
            if os.path.exists(self.file) and os.path.getsize(self.file):
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


def resident(pid):
    """Resident memory of a process and its descendants in MiB, and the part that is of no file."""
    total, own, todo = 0, 0, [pid]
    while todo:
        p = todo.pop()
        try:
            for task in os.listdir(f"/proc/{p}/task"):
                with open(f"/proc/{p}/task/{task}/children") as f:
                    todo += [int(c) for c in f.read().split()]
            with open(f"/proc/{p}/statm") as f:
                pages = [int(n) for n in f.read().split()]
                total, own = total + pages[1], own + pages[1] - pages[2]
        except OSError:
            pass  # it has ended
    return total * resource.getpagesize() / 2**20, own * resource.getpagesize() / 2**20


def run(command, folder, clock):
    """Runs a program; returns its start in ns, its processor seconds and its memory in MiB."""

    def used():
        u = resource.getrusage(resource.RUSAGE_CHILDREN)
        return u.ru_utime + u.ru_stime

    left, before, began, most = clock.left(), used(), time.time_ns(), [(0.0, 0.0)]
    with tempfile.TemporaryFile() as log:
        p = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        done = threading.Event()

        def watch():
            while not done.wait(0.2):
                most[0] = max(most[0], resident(p.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            p.wait(left)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            raise Failed(f"the time was over after {left:.0f} s of one run") from None
        finally:
            done.set()
            watcher.join()
        if p.returncode not in (0, 3, 4):
            log.seek(0)
            raise Failed(f"{' '.join(command)[:200]} ended with {p.returncode}: {log.read().decode(errors='replace')[-1000:]}")
    return began, used() - before, most[0]


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


class Load:
    """One load by aicplan, or by AIPerf if program is its path. Both write AIPerf's files."""

    def __init__(self, clock, program, peer, address, connections, requests, isl, tokenizer):
        self.folder = tempfile.TemporaryDirectory()
        self.requests, out = requests, os.path.join(self.folder.name, "out")
        if peer:
            name = os.path.join(self.folder.name, "tokenizer")
            os.mkdir(name)
            shutil.copy(tokenizer, os.path.join(name, "tokenizer.json"))
            with open(os.path.join(name, "tokenizer_config.json"), "w") as f:
                json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>",
                           "pad_token": "<|endoftext|>"}, f)
            command = [program, "profile", "--model", "m", "--endpoint-type", "chat", "--streaming", "--url",
                       "http://" + address, "--synthetic-input-tokens-mean", str(isl), "--output-tokens-mean",
                       str(TOKENS), "--concurrency", str(connections), "--request-count", str(requests),
                       "--tokenizer", name, "--use-server-token-count", "--artifact-dir", out, "--ui-type", "none"]
        else:
            with open(os.path.join(self.folder.name, "bench.hcl"), "w") as f:
                f.write(PLAN % (address, tokenizer, connections, requests, isl, TOKENS))
            command = [program, "apply", "--out-dir", out, "bench.hcl"]
        self.began, cpu, self.memory = run(command, self.folder.name, clock)
        self.us = 1e6 * cpu / requests
        with open(os.path.join(out, "profile_export_aiperf.json")) as f:
            self.rate = json.load(f)["request_throughput"]["avg"]
        self.log = os.path.join(out, "profile_export.jsonl")

    def errors(self, truth, skip):
        """Errors of TTFT and ITL in ms, without the first requests that the server received."""
        found = []
        with open(self.log) as f:
            for line in f:
                r = json.loads(line)
                t = truth.get(r["metadata"]["x_request_id"])
                if r.get("error") or not t or not t["sent_ns"]:
                    continue
                m, sent = r["metrics"], t["sent_ns"]
                ttft = abs(m["time_to_first_token"]["value"] - (sent[0] - t["received_ns"]) / 1e6)
                between = m["inter_chunk_latency"]["value"]
                itl = abs(sum(between) - (sent[-1] - sent[0]) / 1e6) / len(between)
                found.append((t["received_ns"], ttft, itl))
        if len(found) <= skip:
            raise Failed(f"the server knows {len(found)} of {self.requests} requests")
        return [e[1] for e in sorted(found)[skip:]], [e[2] for e in sorted(found)[skip:]]


def quantile(values, q):
    v = sorted(values)
    return v[min(len(v) - 1, int(q * (len(v) - 1) + 0.5))]


class Bench:
    def __init__(self, binary, limit, aiperf, clock, quick):
        self.binary, self.limit, self.aiperf, self.clock = binary, limit, aiperf, clock
        self.scale, self.rows, self.absent = 10 if quick else 1, [], []

    def add(self, figure, value, sign="", bound=0.0, digits=2):
        reached = "" if not sign else "yes" if (value <= bound if sign == "<=" else value >= bound) else "NO"
        self.rows.append((figure, f"{sign} {bound:g}".strip() if sign else "", f"{value:.{digits}f}", reached))
        print(*self.rows[-1], sep=" | ", file=sys.stderr, flush=True)

    def missing(self, figure, why, bounded=True):
        self.rows.append((figure, "", "not measured", "unknown" if bounded else ""))
        self.absent.append(f"{figure} was not measured: {why}")
        print(self.absent[-1], file=sys.stderr, flush=True)

    def part(self, figure, f):
        try:
            f()
        except (Failed, OSError, ValueError, KeyError) as e:
            self.missing(figure, e)

    def load(self, address, connections, requests, isl, tokenizer, peer=False):
        requests = max(2 * connections, requests // self.scale)
        return Load(self.clock, self.aiperf if peer else self.binary, peer, address, connections, requests, isl,
                    tokenizer)

    def rates(self, connections, isl):
        """Rates of all clients at one point."""
        with Server(self.limit, "server", "{file}", str(TOKENS)) as s:
            n = max(2 * connections, RATES[connections, isl] // self.scale)
            limits, bare, full, ratios = [], [], [], []

            def limit():
                out = subprocess.run([self.limit, "client", s.address.split(":")[1], str(connections), str(n),
                                      str(6 * isl + 200)], capture_output=True, text=True, timeout=self.clock.left(),
                                     check=True)
                rate, cpu = map(float, out.stdout.split())
                limits.append((rate, 1e6 * cpu / n))
                return rate

            for i in range(PAIRS if isl == 100 else ROUNDS):
                before = limit()
                bare.append(self.load(s.address, connections, n * self.scale, isl, ""))
                ratios.append(bare[-1].rate / statistics.mean((before, limit())))
                if i < ROUNDS:
                    full.append(self.load(s.address, connections, n * self.scale, isl, TOKENIZER))

            def middle(runs):
                return statistics.median(r.rate for r in runs), statistics.median(r.us for r in runs)

            at = f"c={connections}, isl {isl}"
            (without, us), (rate, _) = middle(bare), middle(full)
            top, top_us = (statistics.median(column) for column in zip(*limits))
            self.add(f"rate, epoll client, {at}", top, digits=0)
            self.add(f"rate, aicplan without tokenizer, {at}", without, digits=0)
            self.add(f"rate, aicplan, {at}", rate, digits=0)
            self.add(f"us, epoll client, {at}", top_us, digits=1)
            self.add(f"us, aicplan without tokenizer, {at}", us, digits=1)
            if isl == 100:
                self.add(f"rate without tokenizer / epoll client, {at}", statistics.median(ratios), ">=", 0.5)
            if connections == 64:
                self.add(f"rate with / without tokenizer, {at}", rate / without, ">=", 0.9)
            if (connections, isl) not in PEER_RATES:
                return
            figure = f"rate / AIPerf, {at}"
            if not self.aiperf:
                return self.missing(figure, "AIPERF names no program")
            peer = self.load(s.address, connections, PEER_RATES[connections, isl], isl, TOKENIZER, peer=True)
            self.add(f"rate, AIPerf, {at}", peer.rate, digits=0)
            self.add(figure, min(rate, without) / peer.rate, ">=", 15, 1)

    def errors(self, connections, isl, tokenizer, peer=False):
        ttft, itl, spread, requests = TRUTHS[connections]
        with Server(self.binary, "mock-server", "--address-file", "{file}", "--truth", "--ttft", ttft, "--itl", itl,
                    "--ttft-spread", spread, "--token-spread", "2") as s:
            r = self.load(s.address, connections, requests, isl, tokenizer, peer)
            return *r.errors(s.truth(), connections), r.memory

    def truth(self, connections, isl):
        first, between, memory = self.errors(connections, isl, TOKENIZER)
        at = f"c={connections}, isl {isl}"
        self.add(f"TTFT error ms, p50, {at}", quantile(first, 0.5), "<=", 0.2, 3)
        self.add(f"TTFT error ms, p99, {at}", quantile(first, 0.99), "<=", 5, 3)
        self.add(f"ITL error ms, p50, {at}", quantile(between, 0.5), "<=", 0.005, 4)
        if (connections, isl) == (64, 100):
            self.add(f"memory MiB, {at}", memory[0], "<=", 40, 0)
            self.add(f"memory MiB without mapped files, {at}", memory[1], digits=0)

    def tokenizers(self, isl):
        """TTFT errors with and without a tokenizer."""
        full, bare = [], []
        for _ in range(2):
            bare += self.errors(64, isl, "")[0]
            full += self.errors(64, isl, TOKENIZER)[0]
        without = quantile(bare, 0.5)
        self.add(f"TTFT error ms without tokenizer, p50, c=64, isl {isl}", without, digits=3)
        self.add(f"TTFT error ms with tokenizer, p50, c=64, isl {isl}", quantile(full, 0.5), "<=",
                 round(max(1.1 * without, without + RESOLUTION), 3), 3)

    def peer_truth(self):
        first, between, memory = self.errors(64, 100, TOKENIZER, peer=True)
        self.add("memory MiB, AIPerf, c=64, isl 100", memory[0], digits=0)
        for q in (0.5, 0.99):
            self.add(f"TTFT error ms, p{100 * q:.0f}, AIPerf, c=64, isl 100", quantile(first, q), digits=3)
        self.add("ITL error ms, p50, AIPerf, c=64, isl 100", quantile(between, 0.5), digits=4)

    def start(self):
        starts = []
        for _ in range(STARTS):
            with Server(self.binary, "mock-server", "--address-file", "{file}", "--truth") as s:
                r = self.load(s.address, 1, 1, 100, TOKENIZER)
                starts.append((min(t["received_ns"] for t in s.truth().values()) - r.began) / 1e9)
        self.add("start s", statistics.median(starts), "<=", 0.05, 3)

    def all(self):
        self.part("start s", self.start)
        for connections, isl in RATES:
            self.part(f"rates, c={connections}, isl {isl}", lambda: self.rates(connections, isl))
        for isl in LENGTHS:
            for connections in TRUTHS:
                self.part(f"TTFT error, c={connections}, isl {isl}", lambda: self.truth(connections, isl))
        for isl in (100, 8000, 32000):
            self.part(f"TTFT error with and without tokenizer, isl {isl}", lambda: self.tokenizers(isl))
        if self.aiperf:
            self.part("TTFT error, AIPerf", self.peer_truth)


def usable():
    """The share of a processor that a busy program gets."""
    began, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - began < 0.5:
        pass
    return (time.process_time() - cpu) / (time.monotonic() - began)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("binary")
    a.add_argument("-o", dest="file")
    a.add_argument("-within", type=float, default=580, metavar="SECONDS", help="end by then, with what was measured (580)")
    a.add_argument("-quick", action="store_true", help="a tenth of the requests: to try the script")
    c = a.parse_args()

    began, share = time.time(), usable()
    with tempfile.TemporaryDirectory() as folder:
        limit = os.path.join(folder, "limit")
        subprocess.run([os.environ.get("CC") or "cc", "-O2", "-o", limit, os.path.join(HERE, "testdata", "limit.c")],
                       check=True)
        aiperf = shutil.which(os.environ.get("AIPERF") or "")
        b = Bench(os.path.abspath(c.binary), limit, aiperf and os.path.abspath(aiperf), Clock(c.within), c.quick)
        b.all()

    lines = ["| figure | bound | measured | reached |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in b.rows]
    reached = [row[3] for row in b.rows]
    lines += ["", f"{reached.count('yes')} bounds are reached, {reached.count('NO')} are not, "
              f"{reached.count('unknown')} were not measured. {os.cpu_count()} processors, of which a busy program got "
              f"{100 * share:.0f} % before; {time.time() - began:.0f} s."]
    if share < 0.9:
        lines.append("The machine had other work: only processor times and memory of this table mean something.")
    lines += [line + "." for line in b.absent]
    text = "\n".join(lines) + "\n"
    print(text)
    if c.file:
        with open(c.file, "w") as f:
            f.write(text)
    sys.exit(1 if "NO" in reached else 2 if "unknown" in reached else 0)


main()
