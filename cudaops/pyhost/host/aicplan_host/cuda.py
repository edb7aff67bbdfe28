"""What measurements on one CUDA device share."""

import contextlib
import ctypes
import gc
import weakref

from .kernels import kernels_of

_KERNELS = """
typedef unsigned long long u64;

__device__ __forceinline__ u64 wall() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

extern "C" __global__ void gate(volatile int* flag, int want, int least_us, int limit_us, u64* out) {
  u64 begin = wall(), cycles = clock64(), now = begin, late = 0;
  for (;;) {
    bool open = *flag - want >= 0;
    now = wall();
    if (open && now - begin >= 1000ull * least_us) break;
    if (now - begin > 1000ull * limit_us) {
      late = 1;
      break;
    }
  }
  out[1] = clock64() - cycles;
  out[2] = wall() - begin;
  out[0] = late;
}

extern "C" __global__ void stamp(u64* out) {
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (sm != 0) return;
  out[1] = wall();
  out[0] = clock64();
  out[2] = 1;
}
"""
MOST_BLOCKS = 64  # of one burst
_GATE_LEAST_US, _GATE_LIMIT_US = 20, 20_000
_LEAD_CYCLES = 60_000  # some 30 us
EVICT_CALLS = 8  # of a read of other data to a graph: its launch costs both forms of a cold case the same


class Gate:
    """Holds a stream back until the host has queued what comes behind, and stamps the
    clocks of a multiprocessor between blocks. Both are kernels that write to memory of
    the host."""

    def __init__(self, torch, sms):
        self._torch, self._sms = torch, sms
        self._gate = torch.cuda._compile_kernel(_KERNELS, "gate")
        self._stamp = torch.cuda._compile_kernel(_KERNELS, "stamp")
        # The flag, the gate's words, and the stamps': four each.
        # Collectors make the GPU torch's default device, and measure in inference mode.
        with torch.inference_mode(False):
            words = torch.zeros(12 + 4 * MOST_BLOCKS, dtype=torch.int64, device="cpu", pin_memory=True)
        self._words = (ctypes.c_longlong * len(words)).from_address(words.data_ptr())
        self._flag, self._out, *self._stamps = (words[4 * i : 4 * i + 4] for i in range(3 + MOST_BLOCKS))
        self._number = 0
        self.close()
        self.open()
        self.stamp(0)
        torch.cuda.synchronize()
        if self.read()[0] <= 0:
            raise RuntimeError("the gate reads no clock")

    def close(self):
        self._words[4:8] = [0] * 4
        self._number += 1
        self._gate(grid=(1, 1, 1), block=(1, 1, 1), args=[self._flag, self._number, _GATE_LEAST_US, _GATE_LIMIT_US, self._out])

    def open(self):
        self._words[0] = self._number

    def read(self):
        """The clock in MHz while the gate was closed, and whether it opened by itself."""
        late, cycles, nanos = self._words[4:7]
        return (cycles * 1e3 / nanos if nanos > 0 else 0.0), late != 0

    def stamp(self, i):
        self._words[10 + 4 * i] = 0
        self._stamp(grid=(self._sms, 1, 1), block=(1, 1, 1), args=[self._stamps[i]])

    def clock(self, i):
        """The mean clock in MHz from stamp i to the next one; 0 if one is missing."""
        first, second = (self._words[8 + 4 * at : 11 + 4 * at] for at in (i, i + 1))
        if not (first[2] and second[2]) or second[1] <= first[1]:
            return 0.0
        return (second[0] - first[0]) * 1e3 / (second[1] - first[1])


class NoGate:
    """What stands in for a gate where kernels cannot be compiled: a pause of the device
    that is long enough for most hosts, and no clock."""

    def __init__(self, torch):
        self._sleep = getattr(torch.cuda, "_sleep", None)  # no part of torch's public interface

    def close(self):
        if self._sleep is not None:
            self._sleep(_LEAD_CYCLES)

    def open(self):
        pass

    def read(self):
        return 0.0, False

    def stamp(self, i):
        pass

    def clock(self, i):
        return 0.0


class Cuda:
    """What measurements on one device share: the stream, the events, the pool
    that graphs allocate from, the clock stamps and the operand arenas."""

    def __init__(self, torch, device, log):
        self.torch, self.device, self._log = torch, device, log
        self.empty_cache = torch.cuda.empty_cache  # see caching
        torch.cuda.set_device(device)
        props = torch.cuda.get_device_properties(device)
        self.sms = props.multi_processor_count
        self.l2 = getattr(props, "L2_cache_size", 0) or 64 << 20
        self.memory = props.total_memory
        self.stream = torch.cuda.Stream(device)
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * MOST_BLOCKS)]
        self.ended = torch.cuda.Event()
        self._keeper = self._pool = None
        self._said_eager = False
        self._gate = None
        self._arenas = {}
        self._evictor = self._reader = None
        self._room = None  # the pool that tensors come from, if a call goes on without its latencies
        self._rooms = weakref.WeakSet()

    def capture(self, call, calls):
        torch = self.torch
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
            with self._within(None):
                self._cell = torch.zeros(1, device=self.device)
            self._keeper = self._record(lambda: self._cell.add_(1), 1)
        return self._record(call, calls)

    def kernels(self, call):
        """The kernels of one call, as kernels_of returns them, or None if the driver does not
        report them. The graph is not instantiated."""
        try:
            graph = self._record(call, 1, keep_graph=True)  # without it, the handle is that of a graph that is gone
            return kernels_of(graph.raw_cuda_graph())
        except Exception as err:
            self.torch.cuda.synchronize()  # raises again when the context is gone
            self._log("warn", "no names of kernels: %s: %s" % (type(err).__name__, err))
            return None

    def _record(self, call, calls, **options):
        graph = self.torch.cuda.CUDAGraph(**options)
        with self._within(None), self.torch.cuda.stream(self.stream):
            self.stream.synchronize()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                for _ in range(calls):
                    call()
                graph.capture_end()
            except BaseException:
                with contextlib.suppress(Exception):
                    graph.capture_end()
                with contextlib.suppress(Exception):  # capture_end does not do it if the capture is invalid
                    self.torch._C._cuda_endAllocateToPool(self.device.index, self._pool)
                    self.torch._C._cuda_releasePool(self.device.index, self._pool)
                raise
        return graph

    def note_eager(self, err):
        if not self._said_eager:
            self._said_eager = True
            first = str(err).strip().splitlines()
            self._log("info", "no CUDA graph, measured eagerly: %s: %s" % (type(err).__name__, first[0] if first else ""))

    @property
    def gate(self):
        """The device's Gate, compiled when it is first asked for."""
        if self._gate is None:
            try:
                self._gate = Gate(self.torch, self.sms)
            except Exception as err:
                self._log("debug", "no SM clock: %s: %s" % (type(err).__name__, err))
                self._gate = NoGate(self.torch)
        return self._gate

    def clock(self):
        """The SM clock in MHz with nothing running; 0 if unknown."""
        with self.torch.cuda.stream(self.stream):
            self.gate.close()
            self.gate.open()
            self.stream.synchronize()
        return self.gate.read()[0]

    @property
    def evictor(self):
        if self._evictor is None:
            with self._within(None):
                self._evictor = Evictor(self)
        return self._evictor

    def reader(self, kind):
        """A target of the evictor alone."""
        if self._reader is None:
            evict = self.evictor
            self._reader = kind(self, evict, EVICT_CALLS, "require", 0.0, EVICT_CALLS)
            self._reader.prepare()
        return self._reader

    @property
    def pools(self):
        """Whether torch can keep the memory of a prepared case from other tensors."""
        return hasattr(self.torch.cuda, "use_mem_pool")

    @contextlib.contextmanager
    def own_memory(self):
        """Within it, tensors of this thread come from a pool, until fresh_memory begins the
        next one. What a captured graph reads stays as it is while its pool is there, also
        if the collector has freed it: no other tensor gets that memory."""
        with self._within(self._new_pool()):
            yield

    def fresh_memory(self):
        """Begins another pool. Returns the one before, or None outside of own_memory."""
        if self._room is None:
            return None
        before, self._room = self._room, self._new_pool()
        self._leave()
        self._enter()
        return before

    def no_pool(self):
        """Within it, no pool is in use: torch ends the process if a pool goes away while another one is."""
        return self._within(None)

    def _new_pool(self):
        pool = self.torch.cuda.MemPool()
        self._rooms.add(pool)
        return pool

    @contextlib.contextmanager
    def _within(self, pool):
        outer = self._room
        self._leave()
        self._room = pool
        self._enter()
        try:
            yield
        finally:
            self._leave()
            self._room = outer
            self._enter()

    _scope = None

    def _enter(self):
        if self._room is not None:
            self._scope = self.torch.cuda.use_mem_pool(self._room, self.device)
            self._scope.__enter__()

    def _leave(self):
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.__exit__(None, None, None)

    def memory_left(self):
        """Bytes of the device that are free, those that it has, and those that this process
        keeps for further tensors."""
        free, total = self.torch.cuda.mem_get_info(self.device)
        return free, total, 0 if self._rooms else self.torch.cuda.memory_reserved(self.device) - self.taken()

    def taken(self):
        """Bytes that other tensors cannot get: with pools, all that the process has reserved."""
        cuda = self.torch.cuda
        return cuda.memory_reserved(self.device) if self._rooms else cuda.memory_allocated(self.device)

    @contextlib.contextmanager
    def caching(self):
        """Within it, memory that collectors free stays with this process: the next case
        takes it, and both are spared the device's own allocations."""
        cuda = self.torch.cuda
        outer, cuda.empty_cache = cuda.empty_cache, lambda *args, **keywords: None
        try:
            yield
        finally:
            cuda.empty_cache = outer

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

    def release(self):
        """Gives back what the graphs had, which are gone."""
        if self._reader is not None:
            self._reader.close()
        self._keeper = self._pool = self._reader = None
        gc.collect()
        self.empty_cache()

    def trim(self):
        """Gives back what is held between cases."""
        self._evictor = None
        self._arenas.clear()
        self.release()

    def settle(self):
        """Called between cases, and between points that are measured one by one: returns
        cached memory before it crowds out the next one."""
        if self.torch.cuda.memory_reserved(self.device) > 0.5 * self.memory:
            self.trim()


class Evictor:
    """Reads twice as much as the L2 cache holds, as the weights of a layer do."""

    def __init__(self, cuda):
        self.torch = cuda.torch
        # A collector may measure in inference mode: a sum that was made in it could not
        # be written by a case that is not.
        with self.torch.inference_mode(False):
            self._data = self.torch.zeros(cuda.l2 // 2, dtype=self.torch.float32, device=cuda.device)
            self._sum = self.torch.zeros((), dtype=self.torch.float32, device=cuda.device)

    def __call__(self):
        self.torch.sum(self._data, 0, out=self._sum)
