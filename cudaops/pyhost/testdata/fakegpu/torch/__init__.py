"""As much of torch as the host uses, over a GPU in virtual time: kernels take time and
draw power, and work that draws more than FAST watts lowers the clock at once. FAKE_GPU
holds settings as JSON. With "log", the name of a file, the GPU has the machine's time, a
call takes 5 us of the host's, and the file gets a line for every wait for the GPU."""

import collections
import contextlib
import ctypes
import gc
import json
import os
import sys
import time
import types

__version__ = "2.11.0"
version = types.SimpleNamespace(cuda="13.0")
settings = dict({"memory": 100 << 20, "compiles": True, "slow": 0, "log": ""}, **json.loads(os.environ.get("FAKE_GPU", "{}")))
FULL, FAST = 1980.0, 300.0  # MHz; W
int64, float32 = "int64", "float32"


class OutOfMemoryError(RuntimeError):
    pass


class Device:
    now = cycles = 0.0
    taken = peak = 0
    launches = refused = ooms = 0
    capturing = pool = None
    recording = False  # of allocations that belong to a graph
    broken = ""
    queue = None  # work behind a closed gate, of a GPU in the machine's time
    begun = 0  # the first call since the last wait, in ns
    busy = 0.0

    def submit(self, work):
        if not settings["log"]:
            return work()
        self.begun = self.begun or time.time_ns()
        until = time.perf_counter() + 5e-6
        while time.perf_counter() < until:
            pass
        self.open()
        if self.queue is not None:
            self.queue.append(work)
        else:
            self.now = max(self.now, time.perf_counter())
            work()

    def open(self):
        """Runs what is behind a gate that the host has opened."""
        if self.queue is not None and self.flag[0] >= self.number:
            work, self.queue = self.queue, None
            self.now = max(self.now, time.perf_counter())
            for each in work:
                each()

    def wait(self, at=None):
        if self.broken:
            raise RuntimeError(self.broken)
        if not settings["log"]:
            return
        self.open()
        while time.perf_counter() < (self.now if at is None else at()):
            pass
        mark("wait", self.begun, int(self.busy * 1e9))
        self.begun, self.busy = 0, 0.0

    def mhz(self, watts):
        return FULL * min(1.0, (FAST / watts) ** 0.4) if watts > 0 else FULL

    def run(self, seconds, watts):
        if self.broken:
            raise RuntimeError(self.broken)
        mhz = self.mhz(watts)
        took = seconds * FULL / mhz
        self.now += took
        self.busy += took if watts else 0
        self.cycles += took * mhz * 1e6


gpu = Device()


class Tensor:
    """A number in memory of the device, and how often it was changed."""

    def __init__(self, value):
        self.value, self._version = value, 0

    def fill_(self, value):
        self.value, self._version = value, self._version + 1

    def __float__(self):
        return self.value


def kernel(seconds, watts=100.0, breaks=""):
    """Runs for so many seconds at the full clock. A tensor is read at each execution."""

    def work():
        if breaks:
            gpu.broken = breaks
        gpu.launches += 1
        gpu.run(float(seconds) * (1 if gpu.launches > settings["slow"] else 1.5), watts)

    if gpu.capturing is not None:
        gpu.capturing.work.append(work)
    else:
        gpu.submit(work)


def mark(what, *numbers):
    """Writes a line with the time to the log."""
    if settings["log"]:
        os.write(log, ("%s %d %s\n" % (what, time.time_ns(), " ".join(map(str, numbers)))).encode())


log = os.open(settings["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY) if settings["log"] else -1


def refuse():
    """Work of a graph that fails after some executions."""
    gpu.refused += 1
    if gpu.refused > 20:
        raise ValueError("refused")


def break_late():
    """Work of a graph that breaks the context after some executions."""
    gpu.refused += 1
    if gpu.refused > 20:
        gpu.broken = "CUDA error: an illegal memory access was encountered"


class Memory:
    """So many bytes of the device, until nothing refers to it."""

    nbytes, free = 0, None

    def __init__(self, nbytes):
        if gpu.taken + nbytes > settings["memory"]:
            gpu.ooms += 1
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate %d bytes" % nbytes)
        self.nbytes, self.free = nbytes, gpu.pool and gpu.pool.free
        gpu.taken += nbytes
        gpu.peak = max(gpu.peak, gpu.taken)

    def __del__(self):
        if self.free is None or self.free.gone:
            gpu.taken -= self.nbytes
        else:
            self.free.nbytes += self.nbytes


class MemPool:
    """Keeps the memory that was allocated in it."""

    def __init__(self):
        self.free = types.SimpleNamespace(nbytes=0, gone=False)

    def __del__(self):
        gpu.taken -= self.free.nbytes
        self.free.gone = True
        if gpu.pool is not None or gpu.recording:
            os.abort()  # torch's allocator asserts that it records nothing


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    assert gpu.pool is None and gpu.capturing is None, "a pool within another one"
    gpu.pool = pool
    try:
        yield
    finally:
        gpu.pool = None


class GraphPool:
    """Keeps the memory that was allocated in captures, until it and the graphs of them are gone."""

    def __init__(self):
        self.free = types.SimpleNamespace(nbytes=0, gone=False)

    def __del__(self):
        gpu.taken -= self.free.nbytes
        self.free.gone = True


class CUDAGraph:
    def __init__(self):
        self.work, self.invalid = [], False

    def capture_begin(self, pool, **_):
        gpu.capturing, gpu.recording = self, True
        gpu.pool = self.pool = pool

    def capture_end(self):
        gpu.capturing = gpu.pool = None
        if self.invalid:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
        gpu.recording = False

    def replay(self):
        gpu.submit(lambda: [work() for work in self.work])

    def reset(self):
        self.work, self.pool = [], None


class Stream:
    def __init__(self, *_):
        pass

    def synchronize(self):
        synchronize()

    def wait_stream(self, _):
        gpu.submit(lambda: None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Event:
    def __init__(self, **_):
        self.at = 0.0

    def record(self):
        gpu.submit(self._note)

    def _note(self):
        self.at = gpu.now

    def synchronize(self):
        gpu.wait(lambda: self.at)

    def query(self):
        return True

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


def current_stream(*_):
    gpu.begun = 0
    return Stream()


def synchronize(*_):
    if gpu.capturing is not None:
        gpu.capturing.invalid = True
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
    gpu.wait()


def end_recording(device, pool):
    if not gpu.recording:
        raise RuntimeError("not recording to this pool")
    gpu.recording = False


class Words:
    """A tensor of integers in memory of the host."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, at):
        first = self.data_ptr() + 8 * at.start
        return Words((ctypes.c_longlong * (at.stop - at.start)).from_address(first))

    def data_ptr(self):
        return ctypes.addressof(self.data)

    def add_(self, _):
        pass


held = []


def zeros(size, **_):
    words = Words((ctypes.c_longlong * (size if isinstance(size, int) else 1))())
    held.append(words)
    return words


def sum(data, dim, out):  # noqa: A001
    """A read of other data."""
    kernel(30e-6, 200.0)


def compile_kernel(source, name):
    if not settings["compiles"]:
        raise RuntimeError("no NVRTC")

    def gate(grid, block, args):
        out = args[4].data

        def hold():
            if gpu.broken:
                raise RuntimeError(gpu.broken)
            gpu.run(args[2] * 1e-6, 0.0)
            out[0], out[1], out[2] = 0, int(args[2] * FULL), args[2] * 1000

        gpu.submit(hold)
        if settings["log"]:
            gpu.queue, gpu.flag, gpu.number = gpu.queue or [], args[0].data, args[1]

    def stamp(grid, block, args):
        out = args[0].data

        def note():
            out[0], out[1], out[2] = int(gpu.cycles), int(gpu.now * 1e9), 1

        gpu.submit(note)

    return {"gate": gate, "stamp": stamp}[name]


Properties = collections.namedtuple("Properties", "multi_processor_count total_memory L2_cache_size major minor uuid")
mode = types.SimpleNamespace(inference=False)


@contextlib.contextmanager
def inference_mode(on=True):
    before, mode.inference = mode.inference, on
    try:
        yield
    finally:
        mode.inference = before


device = types.SimpleNamespace


def make_device(kind, index=0):
    return types.SimpleNamespace(type=kind, index=index)


device = make_device  # noqa: F811
state = {"dtype": float32, "device": make_device("cpu"), "seed": 0}


def get_default_dtype():
    return state["dtype"]


def set_default_dtype(dtype):
    state["dtype"] = dtype


def get_default_device():
    return state["device"]


def set_default_device(at):
    state["device"] = at or make_device("cpu")


def manual_seed(seed):
    state["seed"] = seed


def get_rng_state():
    return state["seed"]


def set_rng_state(seed):
    state["seed"] = seed


enable_grad = contextlib.nullcontext
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91000))
distributed = types.SimpleNamespace(is_available=lambda: False)
_C = types.SimpleNamespace(_cuda_endAllocateToPool=end_recording, _cuda_releasePool=lambda device, pool: None)
cuda = types.ModuleType("torch.cuda")
cuda.__dict__.update(
    is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 1, set_device=lambda _: None, current_device=lambda: 0,
    get_device_name=lambda _: "Fake GPU", synchronize=synchronize, current_stream=current_stream, default_stream=lambda *_: Stream(),
    stream=lambda s: s, MemPool=MemPool, use_mem_pool=use_mem_pool, Stream=Stream, Event=Event, CUDAGraph=CUDAGraph, graph_pool_handle=GraphPool, _compile_kernel=compile_kernel,
    get_device_properties=lambda _: Properties(1, settings["memory"], 1 << 10, 9, 0, "GPU-fake"),
    memory_reserved=lambda *_: gpu.taken, memory_allocated=lambda *_: gpu.taken, memory_stats=lambda *_: {"num_ooms": gpu.ooms}, empty_cache=gc.collect, mem_get_info=lambda *_: (settings["memory"] - gpu.taken, settings["memory"]),
    get_rng_state=lambda *_: state["seed"], set_rng_state=lambda seed, *_: manual_seed(seed),
)
sys.modules["torch.cuda"] = cuda
