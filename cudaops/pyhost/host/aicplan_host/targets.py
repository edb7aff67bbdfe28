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
