"""What is timed: executions on the host's clock, or on a CUDA stream."""

import math
import time


class CpuTarget:
    """Executions timed on the host's clock."""

    def __init__(self, call):
        self.call, self.used_graph, self.per_launch = call, False, 1

    def warm(self):
        self.call()
        start = time.perf_counter_ns()
        self.call()
        return (time.perf_counter_ns() - start) / 1e9

    def prepare(self, estimate, seconds):
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
_CYCLES_PER_SECOND = 2e9
_MOST_LEAD_SECONDS = 0.02
_QUEUE = 400  # launches that a device's queue holds for certain


def whole_rotations(calls, sets):
    """At least so many calls, in which every operand set has its turn equally
    often: a graph that ended in the middle of a rotation would begin its next
    replay with sets that were just read, and find them in the cache."""
    return -(-calls // sets) * sets


class CudaTarget:
    """Executions timed with CUDA events, replayed from a captured graph where
    that works. Everything runs on one stream of its own, so that library
    workspaces made in the warm-up are the ones that the graph uses."""

    def __init__(self, cuda, call, rotation, graph):
        self.cuda, self.torch = cuda, cuda.torch
        self.call, self.rotation, self.mode = call, rotation, graph
        self.used_graph, self.per_launch, self.host_seconds = False, 1, 0.0
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
        begin = time.perf_counter()
        seconds = self.block(2) / 2
        # The host's part of a call, and more: waiting is in it.
        self.host_seconds = (time.perf_counter() - begin) / 2
        return seconds

    def idle_clock(self):
        """The SM clock in MHz with nothing running but a waiting kernel; 0 when
        unknown."""
        if not self.lead:
            return 0.0
        return self.cuda.clocked(lambda: self.torch.cuda._sleep(_LEAD_CYCLES))[1]

    def _wait(self, launches):
        """Keeps the device busy until the host has queued what a block begins
        with: the first replay of a graph, or all of a block's calls, as far as a
        device's queue holds them. Otherwise small kernels would time the host."""
        if not self.lead:
            return
        cycles = _LEAD_CYCLES
        if self._graph is None and launches <= _QUEUE:
            cycles += int(min(launches * self.host_seconds, _MOST_LEAD_SECONDS) * _CYCLES_PER_SECOND)
        self.torch.cuda._sleep(cycles)

    def prepare(self, estimate, seconds):
        """Captures a graph of so many seconds, 64 calls at most; a call takes about
        estimate."""
        if self.mode == "off":
            return
        want = math.ceil(seconds / max(estimate, 1e-7))
        calls = whole_rotations(max(1, min(64, want)), self.rotation)
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
        self._wait(n)
        start.record()
        for _ in range(n):
            launch()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def queue(self, n):
        """Queues n launches and waits for none of them. Returns the event of their end."""
        launch = self._graph.replay if self._graph is not None else self.call
        for _ in range(n):
            launch()
        end = self.torch.cuda.Event()
        end.record()
        return end

    def clock(self, timed):
        return self.cuda.clocked(timed)

    def close(self):
        if self._graph is not None:
            self._graph.reset()
            self._graph = None
        self._scope.__exit__(None, None, None)
        self._outer.wait_stream(self.cuda.stream)
