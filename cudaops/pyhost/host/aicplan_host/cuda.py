"""What measurements on one CUDA device share."""

import contextlib
import gc
import statistics

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


# A device that has recovered has this share of the clock of a ready one. Two readings
# of one moment that differ by more than COARSE come from a coarse timer.
READY_SHARE = 0.985
COARSE = 0.003
READINGS = 32
MOST_NOISE = 0.03


class ReadyClock:
    """What clock a device has with nothing running. A reading is a pair of one
    moment: how far apart the two are is the noise of the timer, and what differs
    from one pair to the next is the power controller."""

    def __init__(self):
        self.level, self._read, self._apart = 0.0, [], []

    def see(self, first, second):
        """Takes a reading, and says whether the device was ready."""
        if first <= 0 or second <= 0:
            return False
        mhz = (first + second) / 2
        self._read = (self._read + [mhz])[-READINGS:]
        self._apart = (self._apart + [abs(first - second) / mhz])[-READINGS:]
        noise = min(statistics.median(self._apart), MOST_NOISE)
        if noise > COARSE:
            # The highest of many noisy readings is a clock that the device never had.
            self.level = sorted(self._read)[(9 * (len(self._read) - 1)) // 10]
        elif abs(first - second) <= COARSE * mhz:
            self.level = max(self.level, mhz)  # a glitch is in one of two readings
        return mhz >= (READY_SHARE - 2 * noise) * self.level


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
        self.evictor = None  # see evicting
        self.ready = ReadyClock()

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
        self._keeper = self._pool = self.evictor = None
        self._arenas.clear()
        gc.collect()
        self.torch.cuda.empty_cache()

    def settle(self):
        """Called between cases: returns cached memory before it crowds out the
        next case."""
        if self.torch.cuda.memory_reserved(self.device) > 0.5 * self.memory:
            self.trim()
