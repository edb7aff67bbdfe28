"""The measuring that op functions and hosted collectors share."""

import collections
import importlib
import math
import statistics
import time

from .attaching import Attachments
from .capping import Board, PowerCap
from .cuda import Cuda
from .environment import Nvml
from .errors import UNSUPPORTED, HostError, Unsupported
from .evicting import applies, cold
from .targets import CpuTarget, CudaTarget

# The measure block's settings; cudaops/measure documents them and sends all.
DEFAULTS = {
    "protocol": "adaptive",  # or "reference": one mean over a few replays
    "operating_point": "sustained",  # or "recovered"
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
# A case that is run without end for so long: its graph takes this share of that time,
# as a server's graph of many layers does.
SETTLE_GRAPH = 1e-3
# A GPU under its power cap remembers what ran before for milliseconds. Passes
# over one case follow each other here, so the pause between them is at least
# this long; passes beyond the planned ones find a colder device.
CUDA_GAP_SECONDS = 0.004
CUDA_LOOK_GAP_SECONDS = 0.010
# The sustained operating point. A case that the power cap holds back runs until it
# keeps its clock before it counts, in blocks so long. A case is taken for one that
# the cap leaves alone when a device that has recovered keeps this share of its clock
# under the case: power-hungry work lowers the clock within microseconds.
BLIND = (
    "neither the SM clock (torch 2.8 and later read it, with NVRTC) nor the power of the device is known: "
    "rows at the sustained point of work that its power cap holds back may be too fast"
)
HOLD_BLOCK_SECONDS = 0.010
COOL_BLOCK_SECONDS = 0.0005
DROOP_SHARE = 0.93
DROOP_BLOCK_SECONDS = 0.005  # long against the launches around it, when the device idles
MAX_SHORT_BLOCKS = 8  # of a pass, thrown away
# Power: how long a case runs between two readings of the energy counter, before
# the first edge counts, and for the counter to move at all. A reading takes some
# milliseconds, so that two blocks are queued meanwhile.
POWER_BLOCK_SECONDS = 0.010
POWER_QUEUE = 3
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
        self.attachments = Attachments("")
        self.evict = False  # every case is measured with evict=True
        self.verify = False  # op functions check their result against a reference
        self.reads = []  # a Read for each stage that the collect reads
        self.package = ""  # what the runtime names as its package; "" for plain Python
        self._log = log
        self._cuda = self._nvml = self._power_cap = None
        self._no_nvml = ""  # why there is none
        self._said_powerless = self._said_blind = self._held = False

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

    @property
    def _cap(self):
        if self._power_cap is None:
            self._power_cap = PowerCap(self.cuda.ready, Board(self._library(), self.bus_index))
        return self._power_cap

    def _library(self):
        """The device's NVML, or None."""
        if self._nvml is None and not self._no_nvml:
            try:
                self._nvml = Nvml()
            except OSError as err:
                self._no_nvml = str(err)
        return self._nvml

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
        settings = self.settings
        protocol = protocol or settings["protocol"]
        graph = graph or settings["graph"]
        self._held = False  # until the case's own clock or power says so
        sets = list(operands) if operands is not None else None
        call = fn if not sets else _Rotating(fn, sets)
        on_cuda = self.device.type == "cuda"
        target = CudaTarget(self.cuda, call, len(sets) if sets else 1, graph) if on_cuda else CpuTarget(call)
        try:
            if protocol == "reference":
                got = self._reference(target, max(1, warmups), max(1, runs), repeat)
            elif on_cuda and settings["operating_point"] == "sustained" and settings["warmup_seconds"] <= 0:
                got = self._sustained(target, settle)
            else:
                got = self._adaptive(target)
            if on_cuda and protocol != "reference":
                got["operating_point"] = settings["operating_point"]
            slowdown = self._cap.board.slowdown() if on_cuda else None
            if slowdown is not None:
                got["throttled"] = slowdown
            got["used_cuda_graph"] = target.used_graph
            colder = on_cuda and (evict or self.evict) and protocol != "reference"
            evicts = colder and applies(got, self._held)
            powered = settings["power"] and on_cuda and self._can_read_power()
            if powered and not evicts:
                self._add_power(target, got)
            elif settings["power"] and not on_cuda:
                self._powerless("power is measured on CUDA devices only: rows of the %s have none" % self.device.type)
        finally:
            target.close()
        got["protocol"] = protocol
        if evicts:
            got = cold(self.cuda, call, got, self._adaptive_with_power if powered else self._adaptive)
        elif colder:
            got["cache"] = "hot"
        got.update(columns)
        return got

    def _reference(self, target, warmups, runs, repeat):
        """Eager calls, a graph of repeat calls, replays, and the mean of more."""
        for _ in range(warmups):
            target.call()
        target.rotation, target.lead = repeat, False
        target.prepare(1.0, 0.0)
        unroll = 1 if target.used_graph else repeat
        target.block(warmups * unroll)
        seconds, mhz = target.clock(lambda: target.block(runs * unroll))
        each = seconds * 1e3 / (runs * repeat)
        return self._columns([each], [each], [seconds * 1e3], [mhz], warmups + (warmups + runs) * repeat)

    def _launches(self, target, least, settle=0.0):
        """How many launches make a block of at least so many seconds, and how many
        executions it took to find out. The first launch of a graph brings it to
        the device, and functions warm up: only a later one tells."""
        target.prepare(max(target.warm(), 1e-9), max(self.settings["min_block_seconds"], settle * SETTLE_GRAPH))
        target.block(1)
        launch = _checked(target.block(1), 1)
        return max(1, math.ceil(least / launch)), 3 + 2 * target.per_launch

    def _sustained(self, target, settle):
        """What the case does when its like runs without end. A case that the
        power cap leaves alone is measured on a device that has recovered; any
        other one runs until it holds its own clock, and is timed there. settle
        is how long it runs where that is too short, half of it timed."""
        n, executions = self._launches(target, max(COOL_BLOCK_SECONDS, self.settings["min_block_seconds"]), settle)
        if not settle:
            most = max(n, math.ceil(n * DROOP_BLOCK_SECONDS / COOL_BLOCK_SECONDS))
            executions += most * target.per_launch
            if self._cool(target, most):
                got = self._adaptive(target, (n, executions))
                # The cap acts on a long kernel after the look.
                if not self._cap.holds(got.get("sm_clock_mhz", 0.0)):
                    return got
                executions = got["executions"]
        each = max(target.block(n) / n, 1e-9)
        executions += n * target.per_launch
        n = max(1, math.ceil(HOLD_BLOCK_SECONDS / each))
        launches = 0
        blocks, samples = [], []

        def run(seconds):
            nonlocal launches
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                target.block(n)
                launches += n

        def timed(hold):
            nonlocal launches
            blocks.clear()
            samples.clear()
            end = time.perf_counter() + hold
            while time.perf_counter() < end or len(samples) < self.settings["min_samples"]:
                seconds = _checked(target.block(n), n)
                launches += n
                blocks.append(seconds * 1e3)
                samples.append(seconds * 1e3 / (n * target.per_launch))

        if settle:
            run(settle / 2)
            self._held, mhz = self._cap.watch(target, lambda: timed(settle / 2))
        else:
            self._held, mhz = self._cap.keep(target, run, timed, samples)
            if self._cap.blind and not self._said_blind:
                self._said_blind = True
                self._log("warn", BLIND)
        executions += launches * target.per_launch
        return self._columns([statistics.fmean(samples)], samples, blocks, [mhz], executions)

    def _cool(self, target, most):
        """Whether the clock says that the power cap leaves the case alone; not
        where no clock can be read, or where it is locked."""
        time.sleep(max(self.settings["idle_gap_seconds"], CUDA_GAP_SECONDS))
        idle = target.idle_clock()
        ready = self.cuda.ready.see(idle, target.idle_clock())
        _, busy = target.clock(lambda: target.block(most))
        return ready and not self._cap.locked and busy >= DROOP_SHARE * idle

    def _adaptive(self, target, launches=None):
        """Blocks until they agree, in passes with pauses between; more passes
        while their medians differ."""
        s, on_cuda = self.settings, self.device.type == "cuda"
        least = s["min_block_seconds"]
        if on_cuda and s["operating_point"] == "sustained":
            least = max(least, COOL_BLOCK_SECONDS)  # what runs without end has no first launches in it
        n, executions = self._launches(target, least) if launches is None else launches
        state = {"executions": executions}
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
            nonlocal n
            each, spent, short = [], 0.0, 0
            while len(each) < s["max_samples"]:
                seconds = _checked(target.block(n), n)
                if seconds < 0.5 * least and short < MAX_SHORT_BLOCKS:
                    # The estimate came from a slower state; a block this short would
                    # count the timer's steps.
                    short += 1
                    state["executions"] += n * target.per_launch
                    n = max(n + 1, math.ceil(least * n / seconds))
                    continue
                spent += seconds
                state["executions"] += n * target.per_launch
                blocks.append(seconds * 1e3)
                each.append(seconds * 1e3 / (n * target.per_launch))
                if len(each) >= s["min_samples"] and (
                    spent >= s["max_pass_seconds"]
                    or len(each) > 1
                    and statistics.stdev(each) <= s["target_rel_stdev"] * statistics.fmean(each)
                ):
                    break
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
            rel_stdev=statistics.stdev(ordered) / mean if len(ordered) > 1 and mean > 0 else None,
            p10=percentile(ordered, 0.1),
            p90=percentile(ordered, 0.9),
            passes=len(medians),
            pass_spread=max(medians) / min(medians) - 1 if len(medians) > 1 and min(medians) > 0 else None,
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
        if self._library() is None:
            self._powerless("power is not measured: %s" % self._no_nvml)
        return self._nvml is not None

    def _add_power(self, target, got):
        """Adds the columns of power to a measurement of target."""
        began = time.perf_counter()
        power, launches = self._power(target, got["latency"] / 1e3)
        if self._held:
            self._cap.ran(began)
        got.update(power, executions=got["executions"] + launches * target.per_launch)

    def _adaptive_with_power(self, target):
        """A measurement in passes, with the columns of power."""
        got = self._adaptive(target)
        self._add_power(target, got)
        return got

    def _power(self, target, each):
        """Mean power in watts while the case runs back to back, between edges of
        the energy counter (it moves in steps of 0.1 s or so, and only an edge
        says when a count was true), the device's limit, and how many launches
        that took."""
        least, launches, ended = self.settings["power_min_seconds"], 0, 0
        first = last = None
        running = collections.deque()
        try:
            nvml = self._nvml
            n = max(1, math.ceil(POWER_BLOCK_SECONDS / max(each * target.per_launch, 1e-9)))
            began, before = time.perf_counter(), nvml.energy(self.bus_index)
            while True:
                while len(running) < POWER_QUEUE:
                    running.append(target.queue(n))
                    launches += n
                running.popleft().synchronize()
                ended += n
                now, energy = time.perf_counter(), nvml.energy(self.bus_index)
                spent = now - began - POWER_SETTLE_SECONDS
                if energy != before and spent >= 0:
                    last = (now, energy, ended)
                    first = first or last
                before = energy
                if first and last[0] - first[0] >= least or spent >= least + POWER_WAIT_SECONDS:
                    break
            limit = nvml.power_limit(self.bus_index) / 1e3
        except OSError as err:
            raise HostError("power was asked for and cannot be read: %s" % err, UNSUPPORTED)
        finally:
            while running:
                running.popleft().synchronize()
        if first is None or last[0] <= first[0]:
            raise HostError("power was asked for and the device's energy counter stands still", UNSUPPORTED)
        joules, seconds = (last[1] - first[1]) / 1e3, last[0] - first[0]
        executions = (last[2] - first[2]) * target.per_launch
        got = {"power": joules / seconds, "power_limit": limit, "power_method": "energy", "power_seconds": seconds}
        if executions:
            # Of the executions that drew the power: those of the latency may have run
            # at another clock.
            got.update(energy=joules / executions, power_latency=seconds * 1e3 / executions)
        return got, launches


def _checked(seconds, launches):
    """A time that can be: events that were never recorded give none."""
    if not (seconds > 0 and math.isfinite(seconds)):
        raise HostError("the timer cannot be right: %r s for %d launches" % (seconds, launches))
    return seconds


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
