"""What op functions and hosted collectors measure with."""

import contextlib
import importlib
import math

from .attaching import Attachments
from .cuda import Cuda
from .errors import HostError, Unsupported
from .targets import CpuTarget, CudaTarget

# What preparing a case asks of the measure block; the engine's instrument knows the rest.
DEFAULTS = {"protocol": "adaptive", "graph": "prefer", "min_block_seconds": 60e-6, "power": False}
# A graph of a case takes so long at least: of fewer executions, its launch would be a
# share of the row. One that is run without end has a server's, of many layers.
GRAPH_SECONDS = 100e-6
SETTLE_GRAPH = 1e-3  # of the time that such a case runs


class Measurement(dict):
    """One measured latency (ms per execution) with its statistics, by the
    column names of the measurements table. Usable as a row, or a part of one."""

    @property
    def latency(self):
        return self["latency"]


class Bench:
    """What op functions measure with; see docs/guides/python-ops.md.

    bench(fn) measures fn() and returns a Measurement. bench(fn, operands=sets)
    calls fn(*sets[i]) with the sets taking turns, so that operands come from
    memory and not from the L2 cache.
    """

    Unsupported = Unsupported

    def __init__(self, device, settings, log, offers):
        self.device, self.offers = device, offers  # who has measured what is prepared
        self.settings = dict(DEFAULTS)
        self.configure(settings)
        self.seed = 0
        self.case_id = ""
        self.attachments = Attachments("")
        self.evict = False  # every case is measured with evict=True
        self.prepares = lambda: None  # is called before a case is prepared
        self.stopped = None  # raised after one execution, for what is run to compile
        self.deferral = None  # of the call at work, if it goes on without its latencies
        self.kernels = False  # rows name the kernels that run
        self.verify = False  # op functions check their result against a reference
        self.reads = []  # a Read for each stage that the collect reads
        self.package = ""  # what the runtime names as its package; "" for plain Python
        self._log = log
        self._cuda = None
        self._said_powerless = False

    def configure(self, settings):
        self.settings = dict(DEFAULTS)
        for name, value in (settings or {}).items():
            if value is not None:
                self.settings[name] = value

    @contextlib.contextmanager
    def case(self):
        """Within it, seed and attachments belong to one case."""
        outer = self.seed, self.case_id, self.attachments, self.deferral
        self.attachments, self.deferral = Attachments(self.attachments.folder), None
        try:
            yield
        finally:
            self.seed, self.case_id, self.attachments, self.deferral = outer

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

    def attach(self, name, content, media_type="application/octet-stream"):
        """Leaves a file with the case: bytes, a text, or the pathlib.Path of a
        file. It is kept with the case's rows, or with its failure."""
        self.attachments.add(name, content, media_type)

    def folder(self):
        """A folder for files of op functions, the same one for all cases of a worker.
        It is removed when the worker ends, or by the next one where it was killed."""
        raise HostError("only op functions of a worker have a folder")

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

    def __call__(self, fn, *, operands=None, graph=None, protocol=None, warmups=3, runs=6, repeat=1, settle=0.0, evict=False, **columns):
        settings = dict(self.settings)
        settings["protocol"] = protocol or settings["protocol"]
        settings["graph"] = graph or settings["graph"]
        reference = settings["protocol"] == "reference"
        sets = list(operands) if operands is not None else None
        call = fn if not sets else _Rotating(fn, sets)
        self.prepares()
        if self.stopped is not None:
            call()
            self.torch.cuda.synchronize()
            raise self.stopped
        if self.device.type == "cuda":
            if not self.offers.open:
                self.cuda.settle()  # what graphs of earlier points took is lost for this one otherwise
            seconds = max(settings["min_block_seconds"], GRAPH_SECONDS, settle * SETTLE_GRAPH)
            target = CudaTarget(self.cuda, call, len(sets) if sets else 1, settings["graph"], seconds, repeat if reference else 0)
        else:
            target = CpuTarget(call)
        deferral = self.deferral if target.gpu and not reference and not settle and self.offers.here else None
        if deferral is not None:
            with self.cuda.no_pool():
                deferral.room()
        facts = {
            "seconds": target.prepare(), "settings": settings, "settle": settle, "warmups": max(1, warmups), "runs": max(1, runs),
            "cold": target.gpu and not reference and (evict or self.evict),
        }
        if self.kernels:
            columns["kernels"] = target.kernels()
        if deferral is not None and target.used_graph:
            if facts["cold"] and facts["seconds"] <= self.offers.cold_seconds:
                target.vary()
            kept = deferral.locals()
            target.kept = kept, self.cuda.fresh_memory()
            return _with(dict(deferral.offer(target, facts, columns, kept)), columns)
        with self.cuda.no_pool() if target.gpu else contextlib.nullcontext():
            got = Measurement(self.offers.measure(target, facts))
        if settings["power"] and "power" not in got and not self._said_powerless:
            self._said_powerless = True
            why = "the management library of the driver is not there" if target.gpu else "it is measured on CUDA devices only"
            self._log("warn", "rows have no power: %s" % why)
        return _with(got, columns)


def _with(got, columns):
    """A measurement with further columns."""
    measured = sorted(got.keys() & columns.keys())
    if measured:
        raise HostError("bench measures %s; a column of another value needs another name" % ", ".join(measured))
    got.update(columns)
    return got


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
