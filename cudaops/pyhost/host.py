"""The Python worker of aicplan: runs op functions and existing collectors.

The engine starts this file as a subprocess and speaks newline-delimited JSON
with it over two inherited descriptors (AICPLAN_FD_IN and AICPLAN_FD_OUT, or
--fd-in and --fd-out). Standard output and standard error belong to the op
code and end in the worker's log. Only the standard library is imported here;
torch is used where an op, or the device, needs it. Python 3.9 and later.

Parts, in order: the channel, versions (PEP 440), the environment, measuring,
rows, op functions, hosted collectors, the loop, and the mode that child
processes of hosted collectors run in.
"""

import argparse
import ast
import contextlib
import csv
import enum
import errno
import faulthandler
import fcntl
import functools
import gc
import glob
import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import json
import math
import os
import platform
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
import traceback
import types

PROTOCOL = 1
RESTART_CODE = 10  # the exit status by which collectors ask for a fresh process
MAX_TEXT = 256 << 10  # of a message or a traceback, in characters
MAX_CALLS = 64  # that a collector is taken to make in one measured call

COLLECTOR_BUG = "collector_bug"
UNSUPPORTED = "unsupported_config"
FRAMEWORK_BUG = "framework_bug"
RESOURCE = "resource_issue"


class HostError(Exception):
    """A fault that the host itself found; its class is known."""

    def __init__(self, message, cls=COLLECTOR_BUG):
        super().__init__(message)
        self.cls = cls


class Unsupported(Exception):
    """Raised by op functions for a case that this device or version cannot do."""


class Restart(Exception):
    """Ends the process after the current case; the engine starts a fresh one."""


def clip(text):
    text = str(text)
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return text[:half] + "\n[... %d characters left out ...]\n" % (len(text) - MAX_TEXT) + text[-half:]


# ---------------------------------------------------------------- channel


class Channel:
    """Messages to and from the engine.

    The descriptors are moved above the range that frameworks touch, closed on
    exec, and closed in forked children: a child that outlives the worker must
    not keep the pipe open. With descriptors 0 and 1 (a worker behind a
    launcher that passes no others) what the op prints goes to stderr instead.
    """

    def __init__(self, fd_in, fd_out):
        self._in = self._take(fd_in)
        self._out = self._take(fd_out)
        if fd_in == 0:
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
        if fd_out in (0, 1):
            os.dup2(2, 1)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pending = b""
        os.register_at_fork(after_in_child=self._close)

    @staticmethod
    def _take(fd):
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
        if fd > 2:
            os.close(fd)
        return moved

    def _close(self):
        for fd in (self._in, self._out):
            try:
                os.close(fd)
            except OSError:
                pass

    def owned(self):
        """False in a forked child, which has no part in the conversation."""
        return os.getpid() == self._pid

    def read(self):
        """The next message, or None when the engine has closed its end."""
        while b"\n" not in self._pending:
            chunk = os.read(self._in, 1 << 16)
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)

    def send(self, **message):
        if not self.owned():
            return
        data = (json.dumps(message, allow_nan=False) + "\n").encode("ascii")
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[os.write(self._out, view) :]

    def log(self, level, text):
        self.send(type="log", level=level, text=clip(text))


# ---------------------------------------------------------------- versions

_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pren>\d*))?"
    r"(?:-(?P<postn1>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<postn>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<devn>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)
_INF = (math.inf,)


class Version:
    """A PEP 440 version without its local part, ordered as the PEP says."""

    def __init__(self, text):
        m = _VERSION.fullmatch(str(text).strip())
        if not m:
            raise HostError("%r is not a version" % (text,))
        release = [int(p) for p in m["release"].split(".")]
        while len(release) > 1 and release[-1] == 0:
            release.pop()
        self.epoch = int(m["epoch"] or 0)
        self.release = tuple(release)
        pre = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
        word = (m["pre"] or "").lower()
        self.pre = (pre.get(word, word), int(m["pren"] or 0)) if word else None
        if m["postn1"]:
            self.post = int(m["postn1"])
        else:
            self.post = int(m["postn"] or 0) if m["post"] else None
        self.dev = int(m["devn"] or 0) if m["dev"] else None
        if self.pre is not None:
            order = self.pre
        elif self.post is None and self.dev is not None:
            order = ("", -1)  # a development release comes before its alphas
        else:
            order = ("z", 0)
        self.key = (
            self.epoch,
            self.release,
            order,
            -1 if self.post is None else self.post,
            _INF if self.dev is None else (self.dev,),
        )

    def base(self):
        return (self.epoch, self.release)


def _clause(version, op, want):
    if op in ("==", "!=") and want.endswith(".*"):
        prefix = [int(p) for p in want[:-2].split(".")]
        have = list(version.release) + [0] * len(prefix)
        same = have[: len(prefix)] == prefix
        return same if op == "==" else not same
    ref = Version(want)
    a, b = version.key, ref.key
    if op == "~=":
        parts = want.split(".")
        stem = re.match(r"\d+(?:\.\d+)*", want)[0].split(".")
        if len(parts) < 2 or len(stem) < 2:
            raise HostError("~=%s needs at least two parts" % want)
        return a >= b and _clause(version, "==", ".".join(stem[:-1]) + ".*")
    if op == "<":
        early = version.pre is not None or version.dev is not None
        if early and ref.pre is None and ref.dev is None and version.base() == ref.base():
            return False
        return a < b
    if op == ">":
        if version.post is not None and ref.post is None and version.base() == ref.base():
            return False
        return a > b
    return {">=": a >= b, "<=": a <= b, "==": a == b, "!=": a != b, "===": a == b}[op]


def satisfies(version, spec):
    """Whether version meets every clause of a PEP 440 specifier. Pre-releases
    count as any other version; the local part of version is ignored."""
    public = str(version).partition("+")[0]
    try:
        from packaging.specifiers import SpecifierSet
        from packaging.version import Version as Parsed
    except ImportError:
        return _satisfies(public, spec)
    return SpecifierSet(spec).contains(Parsed(public), prereleases=True)


def _satisfies(public, spec):
    v = Version(public)
    for clause in filter(None, (c.strip() for c in spec.split(","))):
        m = re.fullmatch(r"(===|~=|==|!=|<=|>=|<|>)\s*(\S+)", clause)
        if not m:
            raise HostError("%r is not a version condition" % clause)
        if not _clause(v, m[1], m[2]):
            return False
    return True


def route_version(text):
    """The version that routes and __compat__ see: builds from a source tree
    (0.0.0.dev...) count as newer than any release."""
    public = str(text).partition("+")[0]
    return "9999.0.0" if public.startswith("0.0.0.dev") else public


# ---------------------------------------------------------------- environment


class Nvml:
    """The few NVML calls needed to name a device; absent without the library."""

    def __init__(self):
        import ctypes

        self._c = ctypes
        self._lib = ctypes.CDLL("libnvidia-ml.so.1")
        if self._lib.nvmlInit_v2() != 0:
            raise OSError("nvmlInit failed")

    def _string(self, call, *args, size=96):
        buf = self._c.create_string_buffer(size)
        if getattr(self._lib, call)(*args, buf, size) != 0:
            return ""
        return buf.value.decode("ascii", "replace")

    def driver(self):
        return self._string("nvmlSystemGetDriverVersion")

    def _handle(self, index):
        handle = self._c.c_void_p()
        if self._lib.nvmlDeviceGetHandleByIndex_v2(index, self._c.byref(handle)) != 0:
            raise OSError("NVML has no device %d" % index)
        return handle

    def _number(self, call, index, kind):
        value = kind()
        status = getattr(self._lib, call)(self._handle(index), self._c.byref(value))
        if status != 0:
            raise OSError("%s failed with status %d" % (call, status))
        return value.value

    def energy(self, index):
        """Millijoules since the driver was loaded; advances every 100 ms or so."""
        return self._number("nvmlDeviceGetTotalEnergyConsumption", index, self._c.c_ulonglong)

    def power_limit(self, index):
        """Milliwatts."""
        return self._number("nvmlDeviceGetPowerManagementLimit", index, self._c.c_uint)

    def device(self, index):
        """(name, uuid) of the device at a PCI bus order index; empty strings
        when there is none."""
        try:
            handle = self._handle(index)
        except OSError:
            return "", ""
        return self._string("nvmlDeviceGetName", handle), self._string("nvmlDeviceGetUUID", handle)


def cpu_name():
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def package_version(package):
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pass
    try:
        if importlib.util.find_spec(package) is None:
            return None
    except (ImportError, ValueError):
        return None
    return getattr(importlib.import_module(package), "__version__", None)


class PlainDevice:
    """What torch.device is where there is no torch."""

    def __init__(self, kind, index=None):
        self.type, self.index = kind, index

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)

    __repr__ = __str__

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


# ---------------------------------------------------------------- measuring

# The measure block's settings; cudaops/measure documents them and sends all.
DEFAULTS = {
    "protocol": "adaptive",  # or "reference": one mean over a few replays
    "graph": "prefer",  # prefer, require or off
    "min_samples": 3,
    "max_samples": 15,
    "target_rel_stdev": 0.005,
    "min_block_seconds": 60e-6,
    "max_pass_seconds": 0.25,
    "warmup_seconds": 0.0,
    "passes": 2,
    "max_passes": 4,
    "pass_tolerance": 0.01,
    "idle_gap_seconds": 0.0,
    "power": False,
    "power_min_seconds": 1.0,
}
# A GPU under its power cap remembers what ran before for milliseconds. Passes
# over one case follow each other here, so the pause between them is at least
# this long; passes beyond the planned ones find a colder device.
CUDA_GAP_SECONDS = 0.004
CUDA_LOOK_GAP_SECONDS = 0.010
# Power: how long a case runs between two readings of the energy counter, before
# the first edge counts, and for the counter to move at all.
POWER_BLOCK_SECONDS = 0.010
POWER_SETTLE_SECONDS = 0.2
POWER_WAIT_SECONDS = 2.0


class Measurement(dict):
    """One measured latency (ms per execution) with its statistics, by the
    column names of the measurements table. Usable as a row, or a part of one."""

    @property
    def latency(self):
        return self["latency"]


def percentile(ordered, q):
    """The q-quantile of a sorted list, linear between neighbours."""
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


class CpuTarget:
    """Executions timed on the host's clock."""

    def __init__(self, call):
        self.call, self.used_graph, self.per_launch = call, False, 1

    def warm(self):
        self.call()
        start = time.perf_counter_ns()
        self.call()
        return (time.perf_counter_ns() - start) / 1e9

    def prepare(self, estimate, settings):
        pass

    def block(self, n):
        start = time.perf_counter_ns()
        for _ in range(n):
            self.call()
        return (time.perf_counter_ns() - start) / 1e9

    def clock(self, timed):
        return timed(), 0.0

    def close(self):
        pass


_LEAD_CYCLES = 60_000  # some 30 us


class CudaTarget:
    """Executions timed with CUDA events, replayed from a captured graph where
    that works. Everything runs on one stream of its own, so that library
    workspaces made in the warm-up are the ones that the graph uses."""

    def __init__(self, cuda, call, rotation, graph):
        self.cuda, self.torch = cuda, cuda.torch
        self.call, self.rotation, self.mode = call, rotation, graph
        self.used_graph, self.per_launch = False, 1
        self.lead = hasattr(self.torch.cuda, "_sleep")  # no part of torch's public interface
        self._graph = None
        self._outer = self.torch.cuda.current_stream()
        cuda.stream.wait_stream(self._outer)
        self._scope = self.torch.cuda.stream(cuda.stream)
        self._scope.__enter__()

    def warm(self):
        self.cuda.stamps()  # compiled here: nothing may come between a warm-up and its blocks
        self.call()
        self.cuda.stream.synchronize()
        return self.block(2) / 2

    def prepare(self, estimate, settings):
        if self.mode == "off":
            return
        want = math.ceil(settings["min_block_seconds"] / max(estimate, 1e-7))
        calls = max(1, self.rotation, min(64, want))
        try:
            self._graph = self.cuda.capture(self.call, calls)
        except Exception as err:
            self.torch.cuda.synchronize()  # raises again when the context is gone
            if self.mode == "require":
                raise
            self.cuda.note_eager(err)
            return
        self.used_graph, self.per_launch = True, calls

    def block(self, n):
        start, end = self.cuda.events
        launch = self._graph.replay if self._graph is not None else self.call
        if self._graph is not None and self.lead:
            # Keeps the device busy until the host has queued the first replay:
            # its launch is no part of an execution.
            self.torch.cuda._sleep(_LEAD_CYCLES)
        start.record()
        for _ in range(n):
            launch()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def clock(self, timed):
        return self.cuda.clocked(timed)

    def close(self):
        if self._graph is not None:
            self._graph.reset()
            self._graph = None
        self._scope.__exit__(None, None, None)
        self._outer.wait_stream(self.cuda.stream)


_STAMP = """
extern "C" __global__ void stamp(unsigned long long* out) {
  unsigned sm;
  unsigned long long t, c;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  c = clock64();
  out[2 * sm] = t;
  out[2 * sm + 1] = c;
}
"""


class Cuda:
    """What measurements on one device share: the stream, the events, the pool
    that graphs allocate from, the clock stamps and the operand arenas."""

    def __init__(self, torch, device, log):
        self.torch, self.device, self._log = torch, device, log
        torch.cuda.set_device(device)
        props = torch.cuda.get_device_properties(device)
        self.sms = props.multi_processor_count
        self.l2 = getattr(props, "L2_cache_size", 0) or 64 << 20
        self.memory = props.total_memory
        self.stream = torch.cuda.Stream(device)
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self._keeper = self._pool = None
        self._said_eager = False
        self._stamps = None
        self._arenas = {}

    def capture(self, call, calls):
        torch = self.torch
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
            self._cell = torch.zeros(1, device=self.device)
            self._keeper = self._record(lambda: self._cell.add_(1), 1)
        return self._record(call, calls)

    def _record(self, call, calls):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.stream(self.stream):
            self.stream.synchronize()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                for _ in range(calls):
                    call()
            except BaseException:
                with contextlib.suppress(Exception):
                    graph.capture_end()
                raise
            graph.capture_end()
        return graph

    def note_eager(self, err):
        if not self._said_eager:
            self._said_eager = True
            first = str(err).strip().splitlines()
            self._log("info", "no CUDA graph, measured eagerly: %s: %s" % (type(err).__name__, first[0] if first else ""))

    def clocked(self, timed):
        """Runs timed between two stamps of every SM's cycle counter and global
        timer; returns its value and the SM clock in MHz, 0 when unknown."""
        stamp = self.stamps()
        if stamp is None:
            return timed(), 0.0
        stamp(0)
        value = timed()
        stamp(1)
        a, b = self._buffers[0].tolist(), self._buffers[1].tolist()
        rates = []
        for sm in range(len(a) // 2):
            dt, dc = b[2 * sm] - a[2 * sm], b[2 * sm + 1] - a[2 * sm + 1]
            if a[2 * sm] and b[2 * sm] and dt > 0 and dc > 0:
                rates.append(dc * 1e3 / dt)
        return value, statistics.median(rates) if rates else 0.0

    def stamps(self):
        """The function that stamps buffer 0 or 1, or None where it cannot be had."""
        if self._stamps is None:
            self._stamps = False
            try:
                kernel = self.torch.cuda._compile_kernel(_STAMP, "stamp")
                self._buffers = [
                    self.torch.zeros(2 * 256, dtype=self.torch.int64, device=self.device) for _ in range(2)
                ]

                def stamp(which):
                    kernel(grid=(self.sms, 1, 1), block=(1, 1, 1), args=[self._buffers[which]])

                stamp(0)
                self.torch.cuda.synchronize()
                self._stamps = stamp
            except Exception as err:
                self._log("debug", "no SM clock: %s: %s" % (type(err).__name__, err))
        return self._stamps or None

    def arena(self, dtype, elements):
        """At least so many elements of dtype, filled once with random normal
        values (integers: uniform over the type's range)."""
        torch = self.torch
        have = self._arenas.get(dtype)
        if have is not None and have.numel() >= elements:
            return have
        self._arenas.pop(dtype, None)
        have = None
        generator = torch.Generator(device=self.device)
        generator.manual_seed(20240229)
        step = 1 << 28
        out = torch.empty(max(elements, 1 << 20), dtype=dtype, device=self.device)
        for at in range(0, out.numel(), step):
            part = out[at : at + step]
            if dtype.is_floating_point:
                wide = dtype if dtype.itemsize >= 2 else torch.float16
                part.copy_(torch.randn(part.numel(), dtype=wide, device=self.device, generator=generator))
            else:
                info = torch.iinfo(dtype)
                part.copy_(
                    torch.randint(
                        max(info.min, -(1 << 30)), min(info.max, 1 << 30), (part.numel(),),
                        dtype=torch.int32, device=self.device, generator=generator,
                    )
                )
        self._arenas[dtype] = out
        return out

    def trim(self):
        """Gives back what is held between cases, the graphs' pool included."""
        self._keeper = self._pool = None
        self._arenas.clear()
        gc.collect()
        self.torch.cuda.empty_cache()

    def settle(self):
        """Called between cases: returns cached memory before it crowds out the
        next case."""
        if self.torch.cuda.memory_reserved(self.device) > 0.5 * self.memory:
            self.trim()


class Bench:
    """What op functions measure with; see docs/python-ops.md.

    bench(fn) measures fn() and returns a Measurement. bench(fn, operands=sets)
    calls fn(*sets[i]) with the sets taking turns, so that operands come from
    memory and not from the L2 cache.
    """

    Unsupported = Unsupported

    def __init__(self, device, settings, log, bus_index=0):
        self.device, self.bus_index = device, bus_index
        self.settings = dict(DEFAULTS)
        self.configure(settings)
        self.seed = 0
        self.case_id = ""
        self.verify = False  # op functions check their result against a reference
        self.package = ""  # what the runtime names as its package; "" for plain Python
        self.last = []
        self._log = log
        self._cuda = self._nvml = None
        self._said_powerless = False

    def configure(self, settings):
        self.settings = dict(DEFAULTS)
        for name, value in (settings or {}).items():
            if value is not None:
                self.settings[name] = value

    @property
    def torch(self):
        return importlib.import_module("torch")

    @property
    def cuda(self):
        """The device's Cuda, or None when the device is not a CUDA device."""
        if self._cuda is None and self.device.type == "cuda":
            torch = self.torch
            at = torch.cuda.current_device() if self.device.index is None else self.device.index
            self._cuda = Cuda(torch, torch.device("cuda", at), self._log)
        return self._cuda

    def unsupported(self, reason):
        raise Unsupported(reason)

    def rotate(self, *specs, keep=(), limit=16):
        """Operand sets of (shape, dtype) tensors with random values, carved
        from arenas that live as long as the worker: enough sets to exceed
        twice the L2 cache, at most limit. Tensors of the specs in keep are the
        same in every set and come first. Contents must not be written to."""
        torch = self.torch
        cuda = self.cuda
        if cuda is None:
            generator = torch.Generator().manual_seed(20240229)
            return [tuple(_cpu_operand(torch, s, d, generator) for s, d in (*keep, *specs))]
        nbytes = sum(math.prod(shape) * dtype.itemsize for shape, dtype in specs)
        copies = 1 if nbytes >= 2 * cuda.l2 else min(limit, math.ceil(2 * cuda.l2 / max(nbytes, 1)))
        need = {}
        for shape, dtype in (*keep, *(specs * copies)):
            need[dtype] = need.get(dtype, 0) + _aligned(shape)
        arenas = {dtype: cuda.arena(dtype, n) for dtype, n in need.items()}
        at = dict.fromkeys(need, 0)

        def carve(shape, dtype):
            first = at[dtype]
            at[dtype] += _aligned(shape)
            return arenas[dtype][first : first + math.prod(shape)].view(shape)

        kept = tuple(carve(*spec) for spec in keep)
        return [kept + tuple(carve(*spec) for spec in specs) for _ in range(copies)]

    def __call__(self, fn, *, operands=None, graph=None, protocol=None, warmups=3, runs=6, repeat=1, **columns):
        settings = self.settings
        protocol = protocol or settings["protocol"]
        graph = graph or settings["graph"]
        sets = list(operands) if operands is not None else None
        call = fn if not sets else _Rotating(fn, sets)
        on_cuda = self.device.type == "cuda"
        if on_cuda:
            target = CudaTarget(self.cuda, call, len(sets) if sets else 1, graph)
        else:
            target = CpuTarget(call)
        try:
            if protocol == "reference":
                got = self._reference(target, max(1, warmups), max(1, runs), repeat)
            else:
                got = self._adaptive(target)
            if settings["power"] and on_cuda and self._can_read_power():
                power, launches = self._power(target, got["latency"] / 1e3)
                got.update(power, executions=got["executions"] + launches * target.per_launch)
            elif settings["power"] and not on_cuda:
                self._powerless("power is measured on CUDA devices only: rows of the %s have none" % self.device.type)
        finally:
            target.close()
        got["used_cuda_graph"] = target.used_graph
        got["protocol"] = protocol
        got.update(columns)
        self.last.append(got)
        return got

    def _reference(self, target, warmups, runs, repeat):
        """Eager calls, a graph of repeat calls, replays, and the mean of more."""
        for _ in range(warmups):
            target.call()
        target.rotation, target.lead = repeat, False
        target.prepare(1.0, self.settings)
        unroll = 1 if target.used_graph else repeat
        target.block(warmups * unroll)
        seconds, mhz = target.clock(lambda: target.block(runs * unroll))
        each = seconds * 1e3 / (runs * repeat)
        return self._columns([each], [each], [seconds * 1e3], [mhz], warmups + (warmups + runs) * repeat)

    def _adaptive(self, target):
        """Blocks until they agree, in passes with pauses between; more passes
        while their medians differ."""
        s, on_cuda = self.settings, self.device.type == "cuda"
        target.prepare(max(target.warm(), 1e-9), s)
        launch = target.block(1)
        n = max(1, math.ceil(s["min_block_seconds"] / max(launch, 1e-9)))
        state = {"executions": 3 + target.per_launch}
        medians, samples, blocks, clocks = [], [], [], []

        def warm_up():
            until = time.perf_counter() + s["warmup_seconds"]
            target.block(1)
            warm = 1
            while time.perf_counter() < until:
                target.block(n)
                warm += n
            state["executions"] += warm * target.per_launch

        def burst():
            each, spent = [], 0.0
            while len(each) < s["max_samples"]:
                seconds = target.block(n)
                spent += seconds
                blocks.append(seconds * 1e3)
                each.append(seconds * 1e3 / (n * target.per_launch))
                if len(each) >= s["min_samples"] and (
                    spent >= s["max_pass_seconds"]
                    or len(each) > 1
                    and statistics.stdev(each) <= s["target_rel_stdev"] * statistics.fmean(each)
                ):
                    break
            state["executions"] += n * len(each) * target.per_launch
            return each

        def visit(floor):
            gap = max(s["idle_gap_seconds"], floor if on_cuda else 0.0)
            if gap > 0:
                time.sleep(gap)
            warm_up()
            each, mhz = target.clock(burst)
            samples.extend(each)
            medians.append(statistics.median(each))
            clocks.append(mhz)

        for _ in range(max(1, s["passes"])):
            visit(CUDA_GAP_SECONDS)
        while len(medians) < s["max_passes"] and max(medians) > min(medians) * (1 + s["pass_tolerance"]):
            visit(CUDA_LOOK_GAP_SECONDS)
        return self._columns(medians, samples, blocks, clocks, state["executions"])

    @staticmethod
    def _columns(medians, samples, blocks, clocks, executions):
        ordered = sorted(samples)
        mean = statistics.fmean(ordered)
        got = Measurement(
            latency=statistics.median(medians),
            samples=len(ordered),
            rel_stdev=statistics.stdev(ordered) / mean if len(ordered) > 1 and mean > 0 else 0.0,
            p10=percentile(ordered, 0.1),
            p90=percentile(ordered, 0.9),
            passes=len(medians),
            pass_spread=max(medians) / min(medians) - 1 if min(medians) > 0 else 0.0,
            executions=executions,
            block_ms=statistics.median(blocks),
        )
        clocks = [mhz for mhz in clocks if mhz > 0]
        if clocks:
            got["sm_clock_mhz"] = round(statistics.median(clocks), 1)
        return got

    def _powerless(self, why):
        """Says once why rows have no power."""
        if not self._said_powerless:
            self._said_powerless = True
            self._log("warn", why)

    def _can_read_power(self):
        if self._nvml is None:
            try:
                self._nvml = Nvml()
            except OSError as err:
                self._powerless("power is not measured: %s" % err)
        return self._nvml is not None

    def _power(self, target, each):
        """Mean power in watts while the case runs back to back, between edges of
        the energy counter (it moves in steps of 0.1 s or so, and only an edge
        says when a count was true), the device's limit, and how many launches
        that took."""
        least, launches = self.settings["power_min_seconds"], 0
        first = last = None
        try:
            nvml = self._nvml
            n = max(1, math.ceil(POWER_BLOCK_SECONDS / max(each * target.per_launch, 1e-9)))
            began, before = time.perf_counter(), nvml.energy(self.bus_index)
            while True:
                target.block(n)
                launches += n
                now, energy = time.perf_counter(), nvml.energy(self.bus_index)
                spent = now - began - POWER_SETTLE_SECONDS
                if energy != before and spent >= 0:
                    last = (now, energy)
                    first = first or last
                before = energy
                if first and last[0] - first[0] >= least or spent >= least + POWER_WAIT_SECONDS:
                    break
            limit = nvml.power_limit(self.bus_index) / 1e3
        except OSError as err:
            raise HostError("power was asked for and cannot be read: %s" % err, UNSUPPORTED)
        if first is None or last[0] <= first[0]:
            raise HostError("power was asked for and the device's energy counter stands still", UNSUPPORTED)
        return {"power": (last[1] - first[1]) / 1e3 / (last[0] - first[0]), "power_limit": limit}, launches


class _Rotating:
    def __init__(self, fn, sets):
        self.fn, self.sets, self.at = fn, sets, 0

    def __call__(self):
        self.at = (self.at + 1) % len(self.sets)
        return self.fn(*self.sets[self.at])


def _aligned(shape):
    """Elements of a tensor in an arena."""
    return -(-math.prod(shape) // 512) * 512


def _cpu_operand(torch, shape, dtype, generator):
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-100, 100, shape, generator=generator).to(dtype)


# ---------------------------------------------------------------- rows


def scalar(name, value):
    """value as a JSON scalar; refuses what has no faithful form."""
    if isinstance(value, enum.Enum):
        value = value.value if isinstance(value.value, (str, int, float)) else value.name
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        value = float(value)
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", ()) in ((), (1,)):
        return scalar(name, item())
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value).partition(".")[2]
    raise HostError("column %r holds a %s; rows hold numbers, strings and booleans" % (name, type(value).__name__))


def clean_rows(rows, op):
    """Rows as they go to the engine; every fault of an op's rows is named here."""
    if isinstance(rows, dict):
        rows = [rows]
    if rows is None:
        raise HostError("%s returned nothing; an op returns a row or a list of rows" % op)
    out = []
    for row in rows:
        if not isinstance(row, dict):
            raise HostError("%s returned a %s; a row is a dict" % (op, type(row).__name__))
        clean = {}
        for name, value in row.items():
            if not isinstance(name, str):
                raise HostError("%s returned a row with the column name %r; names are strings" % (op, name))
            clean[name] = scalar(name, value)
        latency = clean.get("latency")
        if isinstance(latency, bool) or not isinstance(latency, (int, float)):
            if latency not in ("NaN", "Infinity", "-Infinity"):
                have = ", ".join(sorted(clean)) or "none"
                raise HostError("%s returned a row without a latency (columns: %s)" % (op, have))
        out.append(clean)
    if not out:
        raise HostError("%s returned no rows" % op)
    return out


# ---------------------------------------------------------------- op functions


def load_file(path, name=None):
    """Imports a Python file under a name of its own; its folder is searched for
    the modules beside it."""
    path = os.path.abspath(path)
    name = name or "aicplan_op_%s_%s" % (
        re.sub(r"\W", "_", os.path.splitext(os.path.basename(path))[0]),
        hashlib.sha256(path.encode()).hexdigest()[:8],
    )
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise HostError("%s is not a Python file" % path)
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def find_ops(paths):
    """Op functions in files and folders, without importing them: every public
    function at the top of a file that has a parameter named bench."""
    found = {}
    for entry in paths:
        files = sorted(glob.glob(os.path.join(entry, "*.py"))) if os.path.isdir(entry) else [entry]
        if not os.path.exists(entry):
            raise HostError("%s does not exist; the runtime's path names it" % entry)
        for path in files:
            for node in parsed(path).body:
                if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                    continue
                names = [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
                if "bench" not in names:
                    continue
                old = found.setdefault(node.name, {"file": path, "function": node.name})
                if not os.path.samefile(old["file"], path):
                    raise HostError("op %s is in %s and in %s; the runtime's path must name one of them" % (node.name, old["file"], path))
    return found


def parsed(path):
    """The syntax tree of a file, without running any of it."""
    with open(path, "rb") as f:
        text = f.read()
    try:
        return ast.parse(text, path)
    except (SyntaxError, ValueError) as err:
        where = "%s, line %s" % (path, err.lineno) if getattr(err, "lineno", None) else path
        raise HostError("%s is no Python %s file: %s" % (where, platform.python_version(), getattr(err, "msg", err))) from err


class FunctionOp:
    """An op that is a Python function of the case's parameters and bench."""

    known = {"file", "module", "function", "args", "env", "columns"}

    def __init__(self, name, binding, host):
        self.name, self.binding, self.host = name, binding, host
        self._fn = None
        known_words(name, binding, self.known)
        if "file" not in binding and "module" not in binding:
            function = binding.get("function", name)
            found = find_ops(host.paths)
            if function not in found:
                raise HostError(
                    "op %s: %s has no function %s that takes bench; there is %s"
                    % (name, ", ".join(host.paths) or "the runtime names no path and", function, ", ".join(sorted(found)) or "none")
                )
            self._where = found[function]
        else:
            self._where = binding

    def load(self):
        if self._fn is not None:
            return
        b = self._where
        path = b.get("file")
        if path:
            for folder in [""] + self.host.paths:
                if os.path.exists(os.path.join(folder, path)):
                    path = os.path.join(folder, path)
                    break
            else:
                raise HostError("op %s: there is no file %s" % (self.name, path))
            module = load_file(path)
        else:
            module = importlib.import_module(b["module"])
        function = b.get("function", self.name)
        fn = getattr(module, function, None)
        if fn is None:
            raise HostError("op %s: %s has no function %s" % (self.name, path or b["module"], function))
        self._params = inspect.signature(fn).parameters
        self._open = any(p.kind is p.VAR_KEYWORD for p in self._params.values())
        self._fn = fn

    def source(self):
        return self._where.get("file") or self._where["module"]

    def run(self, case):
        params = dict(case["params"], **self.binding.get("args", {}))
        sweep = case.get("sweep") or []
        if not sweep or "sweep" in self._params:
            extra = {"sweep": sweep} if "sweep" in self._params else {}
            return clean_rows(self._call(params, extra), self.name)
        rows = []
        for point in sweep:
            try:
                got = clean_rows(self._call(dict(params, **point), {}), self.name)
            except Exception as err:
                where = ", ".join("%s=%s" % kv for kv in point.items())
                err.args = ("%s (at %s, after %d of %d points)" % (err, where, len(rows), len(sweep)),)
                raise
            rows.extend(dict(point, **row) for row in got)
        return rows

    def _call(self, params, extra):
        kwargs = dict(params, **extra)
        if "bench" in self._params:
            kwargs["bench"] = self.host.bench
        if not self._open:
            unknown = [k for k in kwargs if k not in self._params]
            if unknown:
                raise HostError(
                    "op %s takes no parameter %s; it would measure the same thing for every value of it"
                    % (self.name, ", ".join(unknown))
                )
        missing = [
            n for n, p in self._params.items()
            if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and n not in kwargs
        ]
        if missing:
            raise HostError("op %s needs %s, which the case does not have" % (self.name, ", ".join(missing)))
        got = self._fn(**kwargs)
        if inspect.isgenerator(got):
            got = list(got)
        elif not isinstance(got, (dict, list, tuple, type(None))):
            try:
                got = list(got)
            except TypeError:
                raise HostError("%s returned a %s; an op returns a row or a list of rows" % (self.name, type(got).__name__)) from None
        constants = self.binding.get("columns")
        if constants and got is not None:
            got = [dict(constants, **row) for row in ([got] if isinstance(got, dict) else got)]
        return got


# ---------------------------------------------------------------- hosted collectors


def environment_of(op):
    return {k: str(v) for k, v in op.binding.get("env", {}).items()}


def known_words(op, binding, known):
    """Refuses words of a binding that nothing would read."""
    for word in sorted(set(binding) - known):
        raise HostError("op %s: a binding has no %r; it has %s" % (op, word, ", ".join(sorted(known))))


class WorkerRestartSignal:
    """What a collector returns to ask for a fresh process. Recognised by the
    name of its class, because a checkout can hold several copies of it."""


class Sink:
    """Takes the rows that collectors log. In the worker they belong to the case
    at hand; in its child processes they go to a spool file that the worker
    reads when the call returns."""

    def __init__(self, spool=None):
        self.spool, self.rows, self.open = spool, [], False
        self.late = 0
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def add(self, row, perf_filename):
        if os.getpid() != self._pid or self.spool:
            folder = self.spool or os.environ.get("AICPLAN_SPOOL")
            if not folder or not os.path.isdir(folder):
                return  # the case has ended
            line = json.dumps([os.path.basename(str(perf_filename)), row]) + "\n"
            with open(os.path.join(folder, "%d.jsonl" % os.getpid()), "a", encoding="ascii") as f:
                f.write(line)
            return
        with self._lock:
            if self.open:
                self.rows.append((os.path.basename(str(perf_filename)), row))
            else:
                self.late += 1


class HelperShim(types.ModuleType):
    """Stands in for the checkout's helper module under both of its names. The
    two functions that touch measuring and files are ours; every other name is
    the checkout's own, loaded on first use."""

    def __init__(self, root, bench, sink):
        super().__init__("helper")
        self.__dict__.update(
            _root=root, _bench=bench, _sink=sink, _real=None,
            benchmark_with_power=self._benchmark, log_perf=self._log_perf,
        )
        self.__file__ = os.path.join(root, "collector", "helper.py")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        real = self._load()
        if real is not None and hasattr(real, name):
            return getattr(real, name)
        control = {
            "EXIT_CODE_RESTART": RESTART_CODE,
            "WorkerRestartSignal": WorkerRestartSignal,
            "WORKER_RESTART": _SENTINEL,
        }
        if name in control:
            return control[name]
        raise AttributeError("module 'helper' of %s has no attribute %r" % (self._root, name))

    def _load(self):
        if self._real is None and os.path.exists(self.__file__):
            real = load_file(self.__file__, "aicplan_checkout_helper")
            real.benchmark_with_power, real.log_perf = self._benchmark, self._log_perf
            self.__dict__["_real"] = real
        return self._real

    @contextlib.contextmanager
    def _benchmark(
        self, device, kernel_func, num_warmups=3, num_runs=6, repeat_n=1, measure_power=None,
        power_min_duration=None, allow_graph_fail=False, use_cuda_graph=True, **unknown
    ):
        graph = self._bench.settings["graph"]
        if not use_cuda_graph:
            graph = "off"
        elif graph == "prefer" and not allow_graph_fail:
            graph = "require"
        got = self._bench(kernel_func, graph=graph, warmups=num_warmups, runs=num_runs, repeat=repeat_n)
        yield {
            "latency_ms": got["latency"],
            "power_stats": None,  # the engine reads power from the device
            "throttled": False,
            "num_runs_executed": got["executions"],
            "used_cuda_graph": got["used_cuda_graph"],
        }

    def _log_perf(
        self, item_list, framework="", version="", device_name="", op_name="", kernel_source="",
        perf_filename="", power_stats=None, **unknown
    ):
        for item in item_list:
            row = {"op_name": op_name, "kernel_source": kernel_source}
            row.update(item)
            stats = self._statistics(row.get("latency"))
            row = dict(stats, **row)
            for key in ("power", "power_limit"):
                if power_stats and power_stats.get(key) is not None:
                    row[key] = power_stats[key]
            if framework or version or device_name:
                row["logged_version"], row["logged_device"] = str(version), str(device_name)
            self._sink.add({str(k): scalar(str(k), v) for k, v in row.items()}, perf_filename)
        return True

    def _statistics(self, latency):
        """The statistics of the measurement that gave this latency, if one did:
        as it is, or over the number of calls that the collector makes in one."""
        for got in reversed(self._bench.last):
            for calls in range(1, MAX_CALLS + 1):
                if latency == got["latency"] / calls:
                    got = {k: v for k, v in got.items() if k != "latency"}
                    for name in ("p10", "p90"):
                        if name in got:
                            got[name] /= calls
                    if "executions" in got:
                        got["executions"] *= calls
                    return got
        return {}


_SENTINEL = WorkerRestartSignal()


class TorchDefaults:
    """torch's default dtype and default device. Collectors set them and leave
    them set, since their own runner has processes for one module each; here the
    next case may be another module's, which expects the initial ones."""

    def __init__(self):
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "get_default_device"):
            self.dtype = self.device = None
            return
        self.dtype = torch.get_default_dtype()
        # No device is not the same as the CPU: that one costs every call a detour.
        device = torch.get_default_device()
        self.device = None if device.type == "cpu" else device

    def set(self):
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "get_default_device"):
            return
        torch.set_default_dtype(self.dtype or torch.float32)
        torch.set_default_device(self.device)

    @classmethod
    @contextlib.contextmanager
    def kept(cls):
        before = cls()
        try:
            yield
        finally:
            before.set()


def hook_helper(root, bench, sink):
    """Makes `helper` and `collector.helper` one and the same shim."""
    shim = HelperShim(root, bench, sink)
    sys.modules["helper"] = sys.modules["collector.helper"] = shim
    for path in (os.path.join(root, "collector"), root):
        if path not in sys.path:
            sys.path.append(path)
    return shim


def plain(value):
    """A form in which case parameters of both sides compare equal: enums by
    name, torch dtypes by their short name, sequences as tuples, whole floats as
    integers."""
    if isinstance(value, enum.Enum):
        return plain(value.value) if isinstance(value.value, str) else value.name.lower()
    if isinstance(value, (bool, str, type(None))):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    name = getattr(value, "name", None)  # enums of C++ bindings are no Enum
    if isinstance(name, str):
        return name.lower()
    text = str(value)
    return text[6:] if text.startswith("torch.") else text


def word(value):
    """The key under which a map of a binding lists value."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def mapped(table, value, where):
    if table is None:
        return value
    key = word(plain(value))
    if key not in table:
        raise HostError("%s: the binding's map has no entry for %s (it has %s)" % (where, key, ", ".join(sorted(table))))
    return table[key]


def positional(fn):
    """Names of the parameters that a case fills in, in order. Functions wrapped
    in an exit stack show it first; callers do not pass it."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(fn).parameters.values() if p.kind in kinds]
    return names[1:] if names[:1] == ["exit_stack"] else names


class CollectorOp:
    """An op of an existing collector, called as its own runner would call it."""

    known = {"module", "versions", "getter", "run", "perf_filename", "args", "match", "env", "columns", "isolate", "rename"}

    def __init__(self, name, binding, host):
        self.name, self.binding, self.host = name, binding, host
        self._run = None
        self._index = None
        self._unknown = ""  # words of listed cases that the binding does not map
        known_words(name, binding, self.known)
        if "run" not in binding:
            raise HostError("op %s: the binding names no run function" % name)
        if "module" not in binding and not binding.get("versions"):
            raise HostError("op %s: the binding names no module" % name)
        if "match" in binding and "getter" not in binding:
            raise HostError("op %s: match looks cases up in what a getter lists; the binding names no getter" % name)

    def source(self):
        return self.module_name()

    def module_name(self):
        b = self.binding
        if "versions" not in b:
            return b["module"]
        have = route_version(self.host.version)
        routes = sorted(b["versions"], key=lambda r: Version(r["min"]).key, reverse=True)
        for route in routes:
            if Version(have).key >= Version(route["min"]).key:
                return route["module"]
        raise HostError(
            "op %s: no module for %s %s; the oldest route is for %s" % (self.name, self.host.package, have, routes[-1]["min"]),
            UNSUPPORTED,
        )

    def load(self):
        if self._run is not None:
            return
        if not self.host.root:
            raise HostError("op %s is bound to a collector; the runtime needs collector_root = the checkout's folder" % self.name)
        if not os.path.isdir(self.host.root):
            raise HostError("op %s: collector_root %s is no folder here" % (self.name, self.host.root))
        name = self.module_name()
        self._check_compat(name)
        with TorchDefaults.kept():
            module = importlib.import_module(name)
            self._defaults = TorchDefaults()
        for role in ("run", "getter"):
            want = self.binding.get(role)
            if want and not callable(getattr(module, want, None)):
                raise HostError("op %s: %s has no function %s" % (self.name, name, want))
        self._module = module
        self.host.collectors.add(name)
        run = getattr(module, self.binding["run"])
        self._names = positional(run)
        if "match" in self.binding:
            # What the getter lists is known, or known to fail, before the first case.
            with TorchDefaults.kept():
                self._defaults.set()
                self._index = self._build(self.binding["match"])
        self._run = run

    def _check_compat(self, name):
        """Holds the module's __compat__ against the framework, without running
        any of the module."""
        path = os.path.join(self.host.root, *name.split(".")) + ".py"
        if not os.path.exists(path):
            raise HostError("op %s: the checkout %s has no module %s" % (self.name, self.host.root, name))
        for node in parsed(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(t, ast.Name) and t.id == "__compat__" for t in targets):
                compat = ast.literal_eval(node.value)
                spec = re.sub(r"^[A-Za-z_][\w.-]*", "", compat.strip())
                if not self.host.version:
                    raise HostError("op %s: %s is written for %s; the runtime names no package" % (self.name, name, compat))
                if not satisfies(route_version(self.host.version), spec):
                    raise HostError(
                        "op %s: %s is written for %s and this is %s %s"
                        % (self.name, name, compat, self.host.package, self.host.version),
                        UNSUPPORTED,
                    )

    def _arguments(self, case):
        params, sweep = case["params"], case.get("sweep") or []
        b = self.binding
        if "match" in b:
            return self._lookup(params)
        specs = b.get("args")
        if specs is None:
            specs = [name for name in self._names if name not in ("perf_filename", "device")]
        out = []
        for spec in specs:
            if isinstance(spec, dict) and "value" in spec:
                out.append(spec["value"])
            elif isinstance(spec, dict) and "sweep" in spec:
                if not sweep:
                    raise HostError("op %s: the binding passes the sweep of %s and the case has none" % (self.name, spec["sweep"]))
                out.append([point[spec["sweep"]] for point in sweep])
            elif isinstance(spec, dict) and "items" in spec:
                out.append([self._column(s, params) for s in spec["items"]])
            elif isinstance(spec, (dict, str)):
                out.append(self._column(spec, params))
            else:
                out.append(spec)
        return out

    def _column(self, spec, params):
        spec = {"column": spec} if isinstance(spec, str) else spec
        name = spec["column"]
        if name not in params:
            raise HostError("op %s: the binding passes %s, which the case does not have" % (self.name, name))
        where = "op %s, %s" % (self.name, name)
        value = mapped(spec.get("map"), params[name], where)
        return value + spec["add"] if "add" in spec else value

    def _lookup(self, params):
        match = self.binding["match"]
        for column in match:
            if column not in params:
                raise HostError("op %s: the binding matches %s, which the case does not have" % (self.name, column))
        key = tuple(plain(params[c]) for c in match)
        found = self._index.get(key, [])
        if len(found) == 1:
            return found[0]
        what = ", ".join("%s=%s" % (c, params[c]) for c in match)
        if not found:
            raise HostError(
                "op %s: %s lists no case with %s; the plan's grid asks for more than this checkout and device have%s"
                % (self.name, self.binding["getter"], what, self._unknown),
                UNSUPPORTED,
            )
        raise HostError("op %s: %s lists %d cases with %s; match needs more columns" % (self.name, self.binding["getter"], len(found), what))

    def _build(self, match):
        names = self._names
        readers = []
        for column, spec in match.items():
            spec = spec if isinstance(spec, dict) else {"param": spec}
            at = spec["param"]
            if isinstance(at, str):
                if at not in names:
                    raise HostError("op %s: %s has no parameter %s" % (self.name, self.binding["run"], at))
                at = names.index(at)
            readers.append((column, int(at), spec))
        index, unknown = {}, set()
        getter = self.binding["getter"]
        try:
            items = list(getattr(self._module, getter)())
        except (Exception, SystemExit) as err:
            raise HostError(
                "op %s: %s of %s raised %s: %s" % (self.name, getter, self._module.__name__, type(err).__name__, clip(err) or "no text")
            ) from err
        for item in items:
            args = item.get("params", item) if isinstance(item, dict) else item
            if isinstance(args, dict):
                args = [args.get(n) for n in names]
            args = list(args)
            key = []
            for column, at, spec in readers:
                value = plain(args[at]) if at < len(args) else None
                table = spec.get("map")
                if table is not None and word(value) not in table:
                    # No column of a plan can ask for it; a wrong map shows here.
                    unknown.add("%s = %s" % (spec["param"], word(value)))
                    key = None
                    break
                value = plain(mapped(table, value, "op %s, %s" % (self.name, column)))
                key.append(value + spec["add"] if "add" in spec else value)
            if key is None:
                continue
            same = index.setdefault(tuple(key), [])
            if repr(args) not in [repr(a) for a in same]:
                same.append(args)
        if unknown:
            self._unknown = "; the binding's map does not know %s, which %s lists too" % (", ".join(sorted(unknown)), getter)
        return index

    def run(self, case):
        host, sink = self.host, self.host.sink
        args = self._arguments(case)
        spool = os.path.join(host.workdir, "spool", str(case["seq"]))
        os.makedirs(spool)
        os.environ["AICPLAN_SPOOL"] = spool
        before = os.getcwd()
        os.chdir(host.workdir)
        sink.rows, sink.open = [], True
        restart = None
        try:
            perf = self.binding.get("perf_filename", self.name + "_perf.txt")
            # Older collectors carry the perf file in their list of cases.
            keywords, names = {}, self._names
            for word, value in (("perf_filename", perf), ("device", host.torch_device)):
                if word not in names[: len(args)]:
                    keywords[word] = value
            if "perf_filename" not in keywords:
                perf = args[names.index("perf_filename")]
            try:
                with TorchDefaults.kept():
                    self._defaults.set()
                    got = self._run(*args, **keywords)
            except SystemExit as stop:
                if stop.code != RESTART_CODE:
                    raise
                restart = "%s ended with exit status %d" % (self.name, RESTART_CODE)
            else:
                if type(got).__name__ == "WorkerRestartSignal":
                    restart = "%s asked for a fresh process" % self.name
            rows = sink.rows + read_spool(spool) + read_perf_files(host.workdir)
            rows = self._finish(rows, perf, case)
        except Exception as err:
            if restart:
                # What the case left behind is why a fresh process was asked for.
                err.restart = restart
            raise
        finally:
            sink.open = False
            os.chdir(before)
            os.environ.pop("AICPLAN_SPOOL", None)
            shutil.rmtree(spool, ignore_errors=True)
            for path in glob.glob(os.path.join(host.workdir, "*_perf.txt*")):
                with contextlib.suppress(OSError):
                    os.unlink(path)
        return rows, restart

    def _finish(self, rows, perf, case):
        if not rows:
            raise HostError("%s returned without logging a row" % self.binding["run"])
        rename, out = self.binding.get("rename", {}), []
        for name, row in rows:
            self.host.check_version(self.name, row.pop("logged_version", ""))
            row.pop("logged_device", None)
            row = {rename.get(k, k): v for k, v in row.items()}
            stem = os.path.splitext(name)[0]
            if stem != os.path.splitext(os.path.basename(perf))[0]:
                row["perf_table"] = stem  # a row of another table than the op's own
            out.append(dict(self.binding.get("columns", {}), **row))
        return clean_rows(out, self.binding["run"])


def read_spool(folder):
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path, encoding="ascii") as f:
            for line in f:
                if line.endswith("\n"):  # a child may have died in the middle of its last line
                    rows.append(tuple(json.loads(line)))
    return rows


def read_perf_files(folder):
    """Rows of perf files that a process without our helper wrote in folder."""
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*_perf.txt"))):
        with open(path, newline="", encoding="utf-8") as f:
            for raw in csv.DictReader(f):
                row = {k: number(v) for k, v in raw.items() if k and v is not None}
                row["logged_version"] = raw.get("version", "")
                for label in ("framework", "version", "device"):
                    row.pop(label, None)
                rows.append((os.path.basename(path), row))
    return rows


def number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


# Children find this file through PYTHONPATH before their own first import.
_SITE = """import importlib.machinery, importlib.util, os, sys, traceback
_here = os.path.dirname(os.path.abspath(__file__))
_rest = [p for p in sys.path if os.path.abspath(p or ".") != _here]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _rest)
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
if os.environ.get("AICPLAN_SPOOL"):
    try:
        _spec = importlib.util.spec_from_file_location("aicplan_host", os.environ["AICPLAN_HOST_FILE"])
        _host = importlib.util.module_from_spec(_spec)
        sys.modules["aicplan_host"] = _host
        _spec.loader.exec_module(_host)
        _host.install_child()
    except Exception:
        traceback.print_exc()
"""


def install_child():
    """Gives a child process of a hosted collector the same helper."""
    settings = json.loads(os.environ["AICPLAN_CHILD"])
    index = settings["device"]
    kind = PlainDevice("cuda" if index >= 0 else "cpu")
    bench = Bench(kind, settings["measure"], lambda level, text: print(text, file=sys.stderr), max(index, 0))
    hook_helper(settings["root"], bench, Sink(spool=os.environ["AICPLAN_SPOOL"]))


# ---------------------------------------------------------------- the loop

_FATAL = re.compile(
    r"illegal memory access|unspecified launch failure|device-side assert|misaligned address|illegal instruction"
    r"|an illegal|uncorrectable ECC|launch timed out|context is destroyed|CUBLAS_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY", re.IGNORECASE)


class Host:
    def __init__(self, channel, init):
        self.channel, self.init = channel, init
        options = init.get("options") or {}
        self.options = options
        self.package = options.get("package") or ""
        self.root = os.path.abspath(options["collector_root"]) if options.get("collector_root") else ""
        self.paths = [os.path.abspath(p) for p in options.get("path") or []]
        self.index = int(init.get("device", -1))
        self.version = ""
        self.collectors = set()
        self.environment = None  # what the op that was loaded first asks for
        self.ops = {}
        self.bench = None
        self.sink = Sink()
        self.workdir = ""
        self._warned = set()

    # -- start

    def hello(self):
        env = {"python": platform.python_version(), "hostname": platform.node()}
        os.environ.update({k: str(v) for k, v in (self.init.get("env") or {}).items()})
        os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        device, uuid, driver = self._name_device()
        if driver:
            env["driver"] = driver
        hello = {"version": "", "device": device, "device_uuid": uuid, "env": env, "ops": [], "configure": True}
        hello["window"] = max(1, int(self.options.get("window", 4)))
        if self.package:
            self.version = self._framework()
            hello["version"], env[self.package] = self.version, self.version
        else:
            self.version = hello["version"] = env["python"]
        self._torch(env, hello)
        self.bench = Bench(self.torch_device, self.init.get("measure"), self.channel.log, max(self.index, 0))
        self.bench.verify = bool(self.options.get("verify"))
        self.bench.package = self.package
        self.bind(self.init.get("ops"))
        hello["ops"] = sorted(self.ops)
        if any(isinstance(op, CollectorOp) for op in self.ops.values()):
            self._settle_in()
        # One op: what it cannot do is known before the first case. Several: each
        # is imported when its first case comes, so that one broken module does
        # not take the others along.
        self._load_only()
        return hello

    def _only(self):
        return next(iter(self.ops.values())) if len(self.ops) == 1 else None

    def _load_only(self):
        only = self._only()
        if only is not None:
            self.load(only)

    def _apart(self, op):
        """Whether an op must not run in this process, because of what it ran
        before: under another environment, of which modules keep what they read
        at import, or a module that wants none beside it."""
        if self.environment is not None and self.environment != environment_of(op):
            return True
        if not isinstance(op, CollectorOp) or not op.binding.get("isolate"):
            return False
        try:
            return bool(self.collectors - {op.module_name()})
        except HostError:
            return False  # no process has a module for it: its case says so

    def _name_device(self):
        if self.index < 0:
            return cpu_name(), "", ""
        try:
            nvml = Nvml()
        except OSError:
            return "", "", ""
        name, uuid = nvml.device(self.index)
        want = self.init.get("uuid")
        if want and uuid and uuid != want:
            raise HostError("device %d is %s, not %s as the engine expected" % (self.index, uuid, want), RESOURCE)
        return name, uuid, nvml.driver()

    def _framework(self):
        version = package_version(self.package)
        if version is None:
            raise HostError(
                "Python %s at %s has no package %s. Start aicplan inside the framework's container, or name the "
                "interpreter that has it: python = \"/path/to/python3\" in the runtime block."
                % (platform.python_version(), sys.executable, self.package),
                UNSUPPORTED,
            )
        requires = self.options.get("requires")
        if requires and not satisfies(version, requires):
            raise HostError(
                "%s %s is installed and the runtime requires %s" % (self.package, version, requires), UNSUPPORTED
            )
        return str(version)

    def _torch(self, env, hello):
        self.torch_device = PlainDevice("cpu") if self.index < 0 else PlainDevice("cuda", self.index)
        found = package_version("torch") if self.index >= 0 or self.package == "torch" or self.options.get("torch") else None
        if found is None:
            if self.index >= 0:
                self.channel.log("warn", "this Python has no torch; ops must bring their own timing")
            return
        torch = importlib.import_module("torch")
        env["torch"] = torch.__version__
        if torch.version.cuda:
            env["cuda"] = torch.version.cuda
        if self.index < 0:
            self.torch_device = torch.device("cpu")
            return
        if not torch.cuda.is_available():
            raise HostError("torch %s sees no CUDA device (it is built for CUDA %s)" % (torch.__version__, torch.version.cuda), RESOURCE)
        at = self._visible_index(torch)
        props = torch.cuda.get_device_properties(at)
        env["sm"] = "%d%d" % (props.major, props.minor)
        env["cudnn"] = str(torch.backends.cudnn.version())
        env["nccl"] = ".".join(map(str, torch.cuda.nccl.version())) if torch.distributed.is_available() else ""
        hello["device"] = torch.cuda.get_device_name(at)
        if not hello["device_uuid"]:
            hello["device_uuid"] = _uuid(props)
        torch.cuda.set_device(at)
        self.torch_device = torch.device("cuda", at)

    def _visible_index(self, torch):
        """The device's index as torch counts, which CUDA_VISIBLE_DEVICES may
        make another one than its place on the bus."""
        want, count = self.init.get("uuid"), torch.cuda.device_count()
        if want:
            for i in range(count):
                if _uuid(torch.cuda.get_device_properties(i)) == want:
                    return i
        if os.environ.get("CUDA_VISIBLE_DEVICES") and count == 1:
            return 0
        if self.index >= count:
            raise HostError("torch sees %d devices and the engine wants number %d" % (count, self.index), RESOURCE)
        return self.index

    def bind(self, ops):
        bindings = dict(ops or {})
        if not bindings or self.options.get("discover"):
            for name, binding in find_ops(self.paths).items():
                bindings.setdefault(name, binding)
        if not bindings:
            raise HostError("no ops: the runtime has neither op bindings nor a path with functions that take bench")
        kept = {}
        for name, binding in bindings.items():
            old = self.ops.get(name)
            if old is not None and old.binding == binding:
                kept[name] = old
            else:
                hosted = any(word in binding for word in ("run", "getter", "versions", "match", "perf_filename"))
                kept[name] = (CollectorOp if hosted else FunctionOp)(name, binding, self)
        self.ops = kept

    def load(self, op):
        """Imports what an op runs. What goes wrong there is about the op and no
        case of it."""
        if self.environment is None:
            self.environment = environment_of(op)
            os.environ.update(self.environment)
        try:
            op.load()
        except HostError:
            raise
        except SystemExit as err:
            raise HostError("op %s: importing %s ends the process with exit status %s" % (op.name, op.source(), err.code)) from err
        except Exception as err:
            failure = self.failure(err, op)
            raise HostError(
                "op %s: %s cannot be loaded: %s: %s" % (op.name, op.source(), type(err).__name__, failure["message"]),
                failure.get("class") or COLLECTOR_BUG,
            ) from err
        # Said once, instead of by every case in the words of whatever it calls first.
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if isinstance(op, CollectorOp) and self.index < 0 and self.options.get("device") != "cpu" and cuda is not None and not cuda.is_available():
            raise HostError("op %s: no GPU is visible here, and %s needs one" % (op.name, op.source()), RESOURCE)

    def _settle_in(self):
        """The folder that hosted collectors work in, and the way in which their
        children find the helper."""
        if self.workdir:
            return
        base = self.options.get("workdir") or tempfile.gettempdir()
        slot = re.sub(r"\W", "", str(self.init.get("slot", "w")))
        sweep_workdirs(base)
        while True:
            self.workdir = tempfile.mkdtemp(prefix="aicplan-new-", dir=base)
            # Collectors look for "context" in the whole path of a perf file.
            if "context" not in os.path.basename(self.workdir):
                break
            os.rmdir(self.workdir)
        # Who holds the lock is alive; the folder gets its name once it is held.
        self._lock = os.open(os.path.join(self.workdir, "lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        named = self.workdir.replace("aicplan-new-", "aicplan-%s-" % slot)
        os.rename(self.workdir, named)
        self.workdir = named
        if "context" in self.workdir or "skip_indexer" in self.workdir:
            raise HostError("the work folder %s has \"context\" or \"skip_indexer\" in its path, which collectors take for the phase; set workdir" % self.workdir)
        site = os.path.join(self.workdir, "site")
        os.mkdir(site)
        with open(os.path.join(site, "sitecustomize.py"), "w", encoding="utf-8") as f:
            f.write(_SITE)
        os.environ["AICPLAN_HOST_FILE"] = os.path.abspath(__file__)
        self._tell_children()
        old = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = site + (os.pathsep + old if old else "")
        if self.root:
            hook_helper(self.root, self.bench, self.sink)

    def _tell_children(self):
        """What the children of hosted collectors measure with, and on which device
        of the bus."""
        os.environ["AICPLAN_CHILD"] = json.dumps({"root": self.root, "measure": self.init.get("measure"), "device": self.index})

    def configure(self, message):
        self.init["measure"], self.init["seed"] = message.get("measure"), message.get("seed", 0)
        self.bench.configure(message.get("measure"))
        if self.workdir:
            self._tell_children()
        try:
            self.bind(message.get("ops"))
            if any(isinstance(op, CollectorOp) for op in self.ops.values()):
                self._settle_in()
            only = self._only()
            if only is None or not self._apart(only):
                self._load_only()
        except HostError as err:
            # A fresh process says so in its hello, where it is about the whole op.
            raise Restart(str(err))

    # -- cases

    def case(self, case):
        """Works on one case and answers it. Raises Restart afterwards when the
        process should be replaced."""
        seq, op = case["seq"], self.ops.get(case["op"])
        if op is not None and self._apart(op):
            raise Restart("op %s wants a process of its own" % case["op"])
        self.channel.send(type="start", seq=seq)
        started = time.perf_counter()
        restart = None
        try:
            if op is None:
                raise HostError("this worker has no op %s; it has %s" % (case["op"], ", ".join(sorted(self.ops))))
            self._seed(case)
            self.load(op)
            rows = op.run(case)
            if isinstance(op, CollectorOp):
                rows, restart = rows
        except BaseException as err:
            failure, restart = self.failure(err, op), getattr(err, "restart", None)
            del err
            self.channel.send(type="error", seq=seq, **failure)
            self._after_failure(failure)
            if failure.get("fatal"):
                raise Restart(failure["message"].splitlines()[0][:200] if failure["message"] else "fatal error")
        else:
            self.channel.send(type="result", seq=seq, rows=rows, seconds=round(time.perf_counter() - started, 6))
        if restart:
            raise Restart(restart)
        self._between()

    def _seed(self, case):
        digest = hashlib.sha256(("%s/%s" % (case["id"], self.init.get("seed", 0))).encode()).digest()
        seed = int.from_bytes(digest[:4], "big")
        self.bench.seed, self.bench.case_id, self.bench.last = seed, case["id"], []
        random.seed(seed)
        for name, call in (("numpy", "random.seed"), ("torch", "manual_seed")):
            module = sys.modules.get(name)
            if module is not None:
                functools.reduce(getattr, call.split("."), module)(seed)

    def failure(self, err, op):
        out = {
            "exception": type(err).__name__,
            "message": clip(err) or type(err).__name__,
            "traceback": clip("".join(traceback.format_exception(type(err), err, err.__traceback__))),
        }
        if isinstance(err, HostError):
            out["class"] = err.cls
        elif isinstance(err, (Unsupported, NotImplementedError)):
            out["class"] = UNSUPPORTED
        elif isinstance(err, MemoryError) or "OutOfMemory" in out["exception"] or _MEMORY.search(out["message"]):
            out["class"] = RESOURCE
        elif isinstance(err, SystemExit):
            out["class"] = COLLECTOR_BUG
            out["message"] = "%s ended the process with exit status %s in the middle of a case" % (getattr(op, "name", "the op"), err.code)
        elif isinstance(err, ImportError):
            out["class"] = COLLECTOR_BUG
        if _FATAL.search(out["message"]) and out.get("class") != RESOURCE or self._poisoned():
            out["fatal"] = True
            out.setdefault("class", FRAMEWORK_BUG)
        return out

    def _poisoned(self):
        """Whether the device's context has an error that stays."""
        torch = sys.modules.get("torch")
        if torch is None or self.index < 0 or not torch.cuda.is_initialized():
            return False
        try:
            torch.cuda.synchronize()
            return False
        except Exception:
            return True

    def _after_failure(self, failure):
        if failure.get("fatal"):
            return
        gc.collect()
        if failure.get("class") == RESOURCE and self.bench is not None and self.bench._cuda is not None:
            self.bench.cuda.trim()

    def _between(self):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        if self.bench._cuda is not None:
            self.bench.cuda.settle()
        if self.sink.late:
            self.channel.log("warn", "%d rows came after their case had ended and were dropped" % self.sink.late)
            self.sink.late = 0

    def check_version(self, op, logged):
        """Says once when a collector labels its rows with another version than
        the one that is installed."""
        if logged and self.version and logged.partition("+")[0] != self.version.partition("+")[0]:
            note = (op, logged)
            if note not in self._warned:
                self._warned.add(note)
                self.channel.log("warn", "op %s labels its rows with version %s; %s is installed" % (op, logged, self.version))

    def close(self):
        if self.workdir:
            remove_workdir(self.workdir)


def remove_workdir(folder):
    """The lock goes last: of a folder whose removal was cut short the next worker
    still sees what it is."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name != "lock":
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, "lock"))
        os.rmdir(folder)


def sweep_workdirs(base):
    """Removes the folders of workers that were killed: nobody holds their locks."""
    for folder in glob.glob(os.path.join(glob.escape(base), "aicplan-*-????????")):
        if os.path.basename(folder).startswith("aicplan-new-"):
            continue
        # A folder has its name once its lock is held, so one without anything in
        # it is what a removal that was cut short has left.
        with contextlib.suppress(OSError):
            os.rmdir(folder)
            continue
        try:
            fd = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # somebody else's, or gone
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_workdir(folder)
        except OSError:
            pass  # its worker lives, or the file system knows no locks
        finally:
            os.close(fd)


def _uuid(props):
    text = str(getattr(props, "uuid", "") or "")
    return "GPU-" + text if text and not text.startswith("GPU-") else text


def serve(channel):
    init = channel.read()
    if init is None:
        return 1
    base = {"type": "hello", "protocol": PROTOCOL, "pid": os.getpid()}
    empty = {"version": "", "device": "", "window": 1, "ops": []}
    host = None
    try:
        if init.get("type") != "init" or init.get("protocol") != PROTOCOL:
            raise HostError("the engine speaks version %s of the worker protocol, this worker version %d" % (init.get("protocol"), PROTOCOL))
        host = Host(channel, init)
        hello = host.hello()
    except BaseException as err:
        failure = Host.failure(host or Host(channel, {}), err, None)
        failure.pop("fatal", None)
        cause = err.__cause__ or err
        if not isinstance(cause, HostError):
            traceback.print_exception(type(cause), cause, cause.__traceback__, chain=False)
        channel.send(**base, **empty, error=failure)
        if host is not None:
            host.close()
        return 1
    channel.send(**base, **hello)
    try:
        while True:
            message = channel.read()
            if message is None:
                return 1  # the engine is gone
            kind = message.get("type")
            if kind == "case":
                host.case(message)
            elif kind == "configure":
                host.configure(message)
            elif kind == "shutdown":
                channel.send(type="bye")
                return 0
            else:
                raise HostError("a message of unknown type %r" % kind)
    except Restart as why:
        channel.send(type="bye", restart=str(why))
        return 0
    except HostError as err:
        channel.send(type="bye", restart=str(err))
        return 1
    finally:
        host.close()


def main():
    parser = argparse.ArgumentParser(description="aicplan's Python worker; started by aicplan, not by hand")
    parser.add_argument("--fd-in", type=int, default=int(os.environ.get("AICPLAN_FD_IN", 3)))
    parser.add_argument("--fd-out", type=int, default=int(os.environ.get("AICPLAN_FD_OUT", 4)))
    args = parser.parse_args()
    try:
        channel = Channel(args.fd_in, args.fd_out)
    except OSError as err:
        if err.errno != errno.EBADF:
            raise
        print("host.py: descriptors %d and %d are not open: workers are started by aicplan, not by hand" % (args.fd_in, args.fd_out), file=sys.stderr)
        return 2
    del sys.argv[1:]  # collectors look for flags of their own runner there
    faulthandler.enable()
    # The engine sends it to a worker that hangs, before it kills it.
    faulthandler.register(signal.SIGQUIT, chain=True)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine decides what an interrupt ends
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = serve(channel)
    except BrokenPipeError:
        code = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    # Threads and libraries of the op must not keep a worker alive that has said bye.
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
