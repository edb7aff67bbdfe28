"""A device in virtual time behind as much of torch as measuring uses: work is
queued and takes time, and the clock falls under load and recovers in pauses, or
follows the mean power of a second. What is measured of it, is printed as one JSON object."""

import contextlib
import json
import math
import random
import sys
import types

sys.path.insert(0, sys.argv[1])
from aicplan_host import capping, measuring, targets  # noqa: E402
from aicplan_host.errors import HostError  # noqa: E402

FULL, HELD, LOW = 1980.0, 1400.0, 1360.0  # MHz, after so much load, and of a device that was held:
LOAD_SECONDS = 0.05
WATTS = 400.0


class Cap:
    """The two loops of an H200's power cap: at once work runs at the clock fast and
    draws so many watts there. Where the mean power of a second comes to the limit,
    the clock is cut for a while, and from then on work runs at the clock at which it
    draws the limit, until the mean is far below. noise is how far the clock swings."""

    LIMIT, RELEASED, IDLE = 700.0, 620.0, 100.0  # W
    CUT, CUT_SECONDS = 1000.0, 0.15  # MHz
    noise = 0.0
    locked = FULL  # no clock is higher
    refresh = 0.0  # seconds between two readings of the power; 0 says that of the moment
    STEP, STEPS = 0.01, 100  # of the mean
    RECOVERS = 0.1  # the clock with nothing running is low so long after held work

    def __init__(self, fast, watts):
        self.load(fast, watts)
        self.steps = [self.IDLE * self.STEP] * self.STEPS  # J
        self.at = 0  # of the step that is being filled
        self.held, self.cut_until, self.held_at = False, 0.0, -1.0
        self.drawn = self.IDLE  # W, lately

    def load(self, fast, watts):
        self.fast, self.watts = fast, watts

    def mhz(self, now):
        if now < self.cut_until:
            return self.CUT
        return (self.kept() if self.held else min(self.fast, self.locked)) * (1 + self.noise * math.sin(40 * now))

    def kept(self):
        """The clock of the work that runs without end."""
        return min(self.locked, self.fast * min(1.0, (self.LIMIT - self.IDLE) / (self.watts - self.IDLE)))

    def idle_mhz(self, now):
        return LOW if now - self.held_at < self.RECOVERS else self.locked

    def spend(self, now, seconds, mhz):
        """Power of the clock mhz, 0 for none, for so long from now on."""
        watts = self.IDLE + (self.watts - self.IDLE) * (mhz / self.fast) if mhz else self.IDLE
        if mhz and not self.refresh:
            self.drawn = watts
        end = now + seconds
        if seconds > 1.5 * self.STEP * self.STEPS:  # a long pause forgets everything
            now = end - 1.5 * self.STEP * self.STEPS
            self.at = int(now / self.STEP)
        while now < end:
            step = int(now / self.STEP + 1e-6)
            for i in range(self.at + 1, step + 1):
                self.steps[i % self.STEPS] = 0.0
            if step > self.at:
                self.at = step
                self.control(now)
            until = min(end, (step + 1) * self.STEP)
            self.steps[step % self.STEPS] += watts * (until - now)
            if self.refresh and int(until / self.refresh) > int(now / self.refresh):
                self.drawn = watts
            now = max(until, now + 1e-9)
        if mhz and self.held:
            self.held_at = end

    def control(self, now):
        mean = sum(self.steps) / (self.STEP * (self.STEPS - 1))
        if not self.held and mean >= self.LIMIT:
            self.held, self.cut_until = True, now + self.CUT_SECONDS
        elif self.held and mean < self.RELEASED:
            self.held = False


class LaterCap(Cap):
    """One whose first loop takes a while to act, too, and as long to forget."""

    AT_ONCE, DELAY, FORGETS = 0.95 * FULL, 0.04, 0.4
    ran = 0.0

    def mhz(self, now):
        return self.AT_ONCE if self.ran < self.DELAY and not self.held else super().mhz(now)

    def spend(self, now, seconds, mhz):
        super().spend(now, seconds, mhz)
        self.ran = self.ran + seconds if mhz else max(0.0, self.ran - self.FORGETS * seconds)


class Device:
    now = 0.0  # seconds
    cap = None  # instead of the clock of HELD and LOAD_SECONDS
    kernel = 20e-6  # seconds at the full clock
    host = 0.0  # where the host is, that queues the work
    call_host = 0.0  # what it takes to queue a kernel
    busy = 0.0  # since the last pause
    cycles = 0.0
    sleeps = 0
    calls = 0
    counter = True  # of energy, in steps of 0.1 s
    reading = 4e-3  # seconds of the host, for the counter
    library = True  # that reads it
    unknown_max = False  # it does not say which clock it could have
    slow = False  # it says that something slows it down; None where it says nothing
    silent = False  # its driver does not say the power of a moment
    droop = 1.0  # clock under load / clock with nothing running, before the power cap acts
    l2 = 1 << 10  # bytes
    missed = 1.0  # how much longer a kernel takes whose operands are not in the cache
    evicted = False  # they are not
    slow_calls = 0  # calls that take ten times as long, after a capture

    def mhz(self):
        return HELD if self.busy > LOAD_SECONDS else FULL

    def run(self, seconds):
        """Work that takes so long at the full clock."""
        if self.cap:
            while seconds > 1e-12:
                mhz = self.cap.mhz(self.now)
                took = min(seconds * FULL / mhz, 0.001)
                self.cap.spend(self.now, took, mhz)
                self.cycles += took * mhz * 1e6
                self.now += took
                seconds -= took * mhz / FULL
            return
        mhz = self.mhz() * (self.droop if self.busy <= LOAD_SECONDS else 1.0)
        took = seconds * FULL / mhz
        self.cycles += took * mhz * 1e6
        self.now += took
        self.busy += took

    def launch(self):
        """Work reaches the device, which waits for it where it has none."""
        self.host += self.call_host
        self.reach(self.host)

    def reach(self, at):
        if at > self.now:
            if self.cap:
                self.cap.spend(self.now, at - self.now, 0)
            self.cycles += (at - self.now) * (self.cap.locked if self.cap else FULL) * 1e6
            self.now = at

    def wait(self, *_):
        self.host = max(self.host, self.now)

    def pause(self, seconds):
        self.host = max(self.host, self.now) + seconds
        self.reach(self.host)
        self.busy = 0.0

    def energy(self, index):
        steps = int(self.host / 0.1) if self.counter else 0
        self.host += self.reading
        return int(steps * 0.1 * WATTS * 1e3)

    def power(self, index):
        if self.silent:
            raise OSError("nvmlDeviceGetFieldValues failed with status 3")
        return (self.cap.drawn if self.cap else WATTS) * 1e3

    def power_limit(self, index):
        return 700_000

    def max_clock(self, index):
        if self.unknown_max:
            raise OSError("nvmlDeviceGetMaxClockInfo failed with status 3")
        return int(FULL)

    def slowdown(self, index):
        if self.slow is None:
            raise OSError("nvmlDeviceGetCurrentClocksEventReasons failed with status 3")
        return self.slow


device = Device()
capturing = None


def kernel():
    queue(execute)


def queue(work):
    if capturing is not None:
        capturing.work.append(work)
        return
    device.launch()
    work()


def read(data, dim, out):
    """A sum of data that fills the cache."""
    assert 4 * len(data) >= 2 * device.l2 and len(out) == 1

    def work():
        device.evicted = True
        device.run(30e-6)

    queue(work)


def execute():
    device.calls += 1
    if device.slow_calls > 0:
        device.slow_calls -= 1
        device.run(200e-6)
        return
    device.run(device.kernel * (device.missed if device.evicted else 1.0))
    device.evicted = False


class Graph:
    def __init__(self):
        self.work = []

    def capture_begin(self, **_):
        global capturing
        capturing = self

    def capture_end(self):
        global capturing
        capturing = None

    def replay(self):
        device.launch()
        for work in self.work:
            work()

    def reset(self):
        self.work = []


class Stream:
    def __init__(self, *_):
        pass

    synchronize = device.wait

    def wait_stream(self, _):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class Event:
    def __init__(self, **_):
        pass

    def record(self):
        self.at = device.now

    def synchronize(self):
        device.host = max(device.host, self.at)

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


class Buffer(list):
    def tolist(self):
        return list(self)

    def add_(self, _):
        pass


def compile_kernel(source, name):
    device.pause(0.5)  # compiling takes its time

    def stamp(grid, block, args):
        args[0][0:2] = [int(device.now * 1e9) + 1, int(device.cycles) + 1]

    return stamp


def sleep_kernel(cycles):
    device.sleeps += 1
    device.launch()
    device.cycles += cycles
    mhz = device.cap.idle_mhz(device.now) if device.cap else device.mhz()
    device.now += cycles / mhz / 1e6


torch = types.ModuleType("torch")
torch.int64 = "int64"
torch.float32 = "float32"
torch.zeros = lambda n, **_: Buffer([0] * (n if n != () else 1))
torch.sum = read
torch.inference_mode = lambda mode: contextlib.nullcontext()
torch.device = lambda kind, index: types.SimpleNamespace(type=kind, index=index)
torch.cuda = types.SimpleNamespace(
    set_device=lambda _: None, current_device=lambda: 0, current_stream=lambda *_: Stream(), stream=lambda s: s,
    Stream=Stream, Event=Event, CUDAGraph=Graph, graph_pool_handle=lambda: 1, synchronize=device.wait,
    get_device_properties=lambda _: types.SimpleNamespace(multi_processor_count=1, total_memory=1 << 30, L2_cache_size=device.l2),
    _compile_kernel=compile_kernel, _sleep=sleep_kernel,
)
sys.modules["torch"] = torch
measuring.time = targets.time = capping.time = types.SimpleNamespace(perf_counter=lambda: device.host, sleep=device.pause)
said = []


def nvml():
    if not device.library:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")
    return device


measuring.Nvml = nvml


def measured(arguments=None, **settings):
    bench = measuring.Bench(types.SimpleNamespace(type="cuda", index=0), settings, lambda level, text: said.append(text))
    device.wait()
    device.pause(1)
    device.sleeps = device.calls = 0
    try:
        got = dict(bench(kernel, **arguments or {}))
    except HostError as err:
        return {"error": str(err), "class": err.cls}
    return dict(got, sleeps=device.sleeps, calls=device.calls)


out = {
    "cool": measured(operating_point="recovered"),
    "held": measured(warmup_seconds=0.2),
    "light": measured(),  # draws little
    "reference": measured(protocol="reference"),
    "power": measured(power=True, operating_point="recovered"),
    "eager": measured(graph="off", operating_point="recovered"),
}
device.call_host = 50e-6
for point in ("recovered", "sustained"):
    out["slow_host_" + point] = measured(graph="off", operating_point=point)
device.call_host = 0.0
device.slow_calls = 9
out["warming"] = measured(operating_point="recovered", min_block_seconds=0.005)
device.droop = 0.8
out["sustained"] = measured()
device.droop = 1.0
device.counter = False
out["no_counter"] = measured(power=True, operating_point="recovered")
device.counter = True


def row(bench, pause, **arguments):
    """What a case says after so long a pause, and how long it took."""
    device.wait()
    device.pause(pause)
    device.calls = 0
    began = device.host
    got = bench(kernel, **arguments)
    return dict(got, calls=device.calls, took=device.host - began)


# Clock at once, and watts there: of work that the first loop holds, that the second
# one holds alone, that stays just below the limit, and that draws little.
HEAVY, BARELY, LATE, EDGE, MID, LIGHT = (1590.0, 810.0), (0.87 * FULL, 810.0), (0.91 * FULL, 760.0), (0.91 * FULL, 690.0), (0.91 * FULL, 640.0), (FULL, 300.0)


def worker(kernel_seconds=400e-6, noise=0.0, cap=Cap, **settings):
    """A worker under the cap, as a function that measures a case of a kind."""
    bench = measuring.Bench(types.SimpleNamespace(type="cuda", index=0), settings, lambda level, text: said.append(text))
    device.cap, device.kernel = cap(*LIGHT), kernel_seconds
    device.cap.noise = noise
    bench.cuda.stamps()  # compiled before any case

    def of(kind, pause, **arguments):
        device.cap.load(*kind)
        return dict(row(bench, pause, **arguments), kept=device.cap.kept())

    return of


def capped(kernel_seconds=400e-6, **settings):
    """Cases of a worker under the cap, by name."""
    of = worker(kernel_seconds, **settings)
    got = {
        "capped_after_idle": of(HEAVY, 2),
        "capped_behind": of(HEAVY, 0.01),
        "capped_after_a_pause": of(HEAVY, 0.4),
        "light_behind_capped": of(LIGHT, 0.01),
        "capped_behind_light": of(HEAVY, 0.01),
        "mid": of(MID, 2),
        "capped_after_mid": of(HEAVY, 0.01),
        "late": of(LATE, 2),
        "late_behind": of(LATE, 0.01),
        "barely": of(BARELY, 2),
        "edge": of(EDGE, 2),
        "capped_behind_edge": of(HEAVY, 0.01),
        "late_behind_capped": of(LATE, 0.01),
        "settle": of(HEAVY, 2, settle=0.4),
        "settle_behind": of(HEAVY, 0.01, settle=0.4),
        "light_after_idle": of(LIGHT, 2),
    }
    device.cap, device.kernel = None, 20e-6
    return got


def after_power():
    """A heavy case behind one whose power was measured."""
    of = worker(power=True)
    return {"with_power": of(HEAVY, 2), "behind_power": of(HEAVY, 0.03)}


def edges(seed):
    """Cases that begin near the clock and the power by which held ones are told."""
    rng = random.Random(seed)
    of = worker(200e-6, noise=0.02)
    rows = []
    for _ in range(40):
        kind = rng.uniform(0.875, 0.915) * FULL, rng.uniform(660, 800)
        rows.append(of(kind, rng.choice((0.015, 2))))
    off = [r["sm_clock_mhz"] / r["kept"] - 1 for r in rows]
    return {"low": min(off), "high": max(off)}




class LockedCap(Cap):
    """One whose clocks somebody has locked at the clock that the first loop leaves
    heavy work. Its power is read ten times a second, as a driver does it."""

    locked, refresh = 1590.0, 0.1


def locked():
    of = worker(200e-6, cap=LockedCap)
    got = {"locked_after_idle": of(HEAVY, 2), "locked_mid": of(MID, 2), "locked_behind": of(HEAVY, 0.5), "locked_light": of(LIGHT, 2)}
    device.silent = True
    got["locked_silent"] = worker(200e-6, cap=LockedCap)(HEAVY, 2)
    device.silent = False
    rng, off = random.Random(3), []
    for lock in (1400.0, 1700.0, 1830.0):
        LockedCap.locked = lock
        of = worker(200e-6, cap=LockedCap)
        for _ in range(8):
            r = of((rng.uniform(1560, 1700), rng.uniform(720, 950)), rng.choice((0.015, 0.1, 2)))
            off.append(r["sm_clock_mhz"] / r["kept"] - 1)
    got["locks"] = {"low": min(off), "high": max(off)}
    device.cap, device.kernel = None, 20e-6
    return got


out.update(capped())
out.update(after_power())
out.update(edges_begun=edges(1), edges_behind=edges(4))
out["capped_long_launch"] = capped(kernel_seconds=2.0)["capped_after_idle"]


def table(gap, mixed):
    """How far the clocks of a table's rows are from what their cases keep without
    end: cases as a grid lists them, products of one weight by their rows, or mixed."""
    rng = random.Random(5)
    cases = []
    for _ in range(2):
        cases += [(rng.uniform(1500, 1690), rng.uniform(760, 950)) for _ in range(5)]
        cases += [(0.91 * FULL, rng.uniform(690, 760)), *((0.92 * FULL, rng.uniform(400, 640)) for _ in range(4))]
    if mixed:
        rng.shuffle(cases)
    of = worker(200e-6, noise=0.015)
    device.pause(2)
    rows = [of(case, gap) for case in cases]
    off = [r["sm_clock_mhz"] / r["kept"] - 1 for r in rows]
    device.cap = None
    return {"low": min(off), "high": max(off), "light": max(r["took"] for r, case in zip(rows, cases) if case[1] < 670)}


out.update(table_sorted=table(0.015, False), table_mixed=table(0.045, True), table_slow=table(0.15, True))
device.silent = True
said.clear()
out.update({"silent_" + name: row for name, row in capped().items() if name in ("capped_after_idle", "barely", "edge")})
silent = list(said)
# Nothing but its clock, later on, says of a long kernel that it is held.
out["later"] = worker(2e-3, cap=LaterCap)(HEAVY, 2)
device.silent = False
lead = torch.cuda._sleep
del torch.cuda._sleep  # and with it the clock of an idle device
out["capped_without_idle_clock"] = capped()["capped_after_idle"]
device.silent = True
said.clear()
out["capped_and_nothing_known"] = dict(capped()["capped_after_idle"], said=list(said))
device.silent = False
torch.cuda._sleep = lead
out.update(locked())
for slow in (None, True):
    device.slow = slow
    out["slow_%s" % slow] = measured(operating_point="recovered")
device.library = False
said.clear()
out["silent_edge"]["said"] = silent
out["no_library"] = dict(measured(power=True, operating_point="recovered"), said=said)
device.missed = 1.4
out["hot"] = measured()
out["cold"] = measured({"evict": True})
device.library = True
out["cold_power"] = measured({"evict": True}, power=True, operating_point="recovered")
device.library = False
out["cold_reference"] = measured({"evict": True}, protocol="reference")
out["cold_eager"] = measured({"evict": True}, graph="off")
device.kernel = 300e-6
out["cold_long"] = measured({"evict": True})
device.kernel, device.droop = 20e-6, 0.8
out["cold_held"] = measured({"evict": True})
device.droop, device.missed = 1.0, 1.0
print(json.dumps(out))
