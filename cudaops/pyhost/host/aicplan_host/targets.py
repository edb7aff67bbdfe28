"""What is timed: executions on the host's clock, or on a CUDA stream."""

import contextlib
import math
import time

from .cuda import EVICT_CALLS, MOST_BLOCKS


class CpuTarget:
    """Executions timed on the host's clock."""

    gpu, used_graph, per_launch, forms = False, False, 1, ()

    def __init__(self, call):
        self.call = call

    def kernels(self):
        """None: a processor has no kernels."""

    def prepare(self):
        return 0.0

    def burst(self, soak, warm, executions, blocks, plain, busy=0, stop=0):
        out = []
        for _ in range(blocks):
            start = time.perf_counter_ns()
            for _ in range(executions):
                self.call()
            out.append(((time.perf_counter_ns() - start) / 1e9, executions, 0.0))
        return out, 0.0, False

    def calls(self, n):
        for _ in range(n):
            self.call()

    def close(self):
        pass


_GATED = 200  # launches that a device's queue holds for certain, with what is in them
_LONG = 1e-3  # seconds above which one execution gives the time, and launching a graph is hidden
_GATED_SECONDS = 0.01  # of the host, in which the gate stays closed
_SEEN = 0.01  # share of a block from which a launch that nothing hides is reported
_TURN = 1e-3  # seconds between the end of a burst and the first launch of the next one


def whole_rotations(calls, sets):
    """At least so many calls, in which every operand set has its turn equally
    often: a graph that ended in the middle of a rotation would begin its next
    replay with sets that were just read, and find them in the cache."""
    return -(-calls // sets) * sets


class CudaTarget:
    """Executions timed with CUDA events, replayed from a captured graph where
    that works. Everything runs on one stream of its own, so that library
    workspaces made in the warm-up are the ones that the graph uses."""

    gpu = True

    def __init__(self, cuda, call, rotation, mode, seconds, repeat=0):
        """A graph holds executions of so many seconds, or repeat of them."""
        self.cuda, self.torch = cuda, cuda.torch
        self.call, self.rotation, self.mode, self.seconds, self.repeat = call, rotation, mode, seconds, repeat
        self.used_graph, self.per_launch, self.host_seconds = False, max(1, repeat), 0.0
        self._graph = self._turns = None
        self._gated = _GATED
        self._running, self._ended = [], 0
        self.forms = ()  # handles of the forms of a cold case, once the instrument has asked for them
        self.kept = None  # what the graph reads and the call may give up

    @contextlib.contextmanager
    def _scope(self):
        outer = self.torch.cuda.current_stream()
        self.cuda.stream.wait_stream(outer)
        with self.torch.cuda.stream(self.cuda.stream):
            yield
        outer.wait_stream(self.cuda.stream)

    def prepare(self):
        """Warms the kernel up and captures it. Returns an estimate of one execution
        in seconds."""
        _ = self.cuda.gate  # compiled here: nothing may come between a warm-up and its blocks
        with self._scope():
            estimate = self._timed(self.call, 1, gated=False)  # it may compile and allocate
            if estimate < _LONG:
                estimate = self._timed(self.call, 2, ahead=1)  # one wait: other processes use the device, too
            elif self.host_seconds > min(estimate, _GATED_SECONDS) / 2:  # the host compiled or loaded code
                estimate = self._timed(self.call, 1)
                if estimate < _LONG:
                    estimate = self._timed(self.call, 2)
            if self.mode != "off":
                self._capture(estimate)
            if self._graph is not None and estimate < _LONG:
                self._graph.replay()  # brings it to the device
        self.estimate = max(estimate, 1e-9)
        return self.estimate

    def kernels(self):
        """The kernels of one execution as JSON text, or None if it cannot be captured."""
        if not self.used_graph:
            return None
        with self._scope():
            return self.cuda.kernels(self.call)

    def _timed(self, launch, n, gated=True, ahead=0):
        """The mean time of n executions in seconds, after some that are not timed."""
        gate, (start, end) = self.cuda.gate, self.cuda.events[:2]
        self.cuda.stream.synchronize()
        begin = time.perf_counter()
        if gated:
            gate.close()
        for _ in range(ahead):
            launch()
        start.record()
        for _ in range(n):
            launch()
        end.record()
        if gated:
            gate.open()
        self.host_seconds = (time.perf_counter() - begin) / (ahead + n)
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / n

    def _capture(self, estimate):
        """Captures a graph, 64 calls at most."""
        want = self.repeat or math.ceil(self.seconds / max(estimate, 1e-7))
        calls = self.repeat or whole_rotations(max(1, min(64, want)), self.rotation)
        try:
            self._graph = self.cuda.capture(self.call, calls)
        except Exception as err:
            self.torch.cuda.synchronize()  # raises again when the context is gone
            if self.mode == "require":
                raise
            self.cuda.note_eager(err)
            return
        self.used_graph, self.per_launch = True, calls

    def _launches(self, executions):
        return math.ceil(executions / self.per_launch) if self._graph is not None else executions

    def burst(self, soak, warm, executions, blocks, plain, busy=0, stop=0):
        """Runs soak executions, then holds the device back until the host has queued
        what follows: warm executions, and the blocks with stamps of the device's clock
        around each. Returns (seconds, executions, MHz) of every block, the clock before the first, and
        whether launches of the host may be in the times. A plain burst has neither gate nor stamps, and a busy
        burst of a graph no gate: the device starts at once and works on while the next burst is asked for, unless stop is set.
        If the host launches executions slower than they run, no more of them are queued at a time than fit behind
        the gate, in shorter blocks if need be."""
        out, ready, bound = [], 0.0, False
        while len(out) < blocks:
            slow = self._slow()
            while True:
                count, each, first, room = min(blocks - len(out), MOST_BLOCKS), executions, warm, self._room()
                if slow and not plain:
                    first = min(warm, 1)
                    each = min(executions, max(room - first, 1))
                    count = min(count, max(room - first, 1) // each)
                part, mhz, late = self._gated_burst(soak + warm - first, first, each, count, plain, busy, stop)
                if not late or self._gated == 0:
                    break
                # The queue was full, or the host too slow: less is queued behind the gate.
                self._gated //= 4
            ready, soak = ready or mhz, 0
            if self._graph is None:
                # Other processes use the device and the processor while a case is prepared: what was timed then may be
                # many times too long.
                self.estimate = min(self.estimate, *(seconds / n for seconds, n, _ in part))
                if self._slow() and not plain and (not slow or room < first + each <= self._room()):
                    continue
                seen = mhz == 0 and not first and self.host_seconds > _SEEN * part[0][0]
                bound = bound or seen or slow and (mhz == 0 or late or room < first + each)
            warm = min(warm, 1) if slow else 0
            out += part
        return out, ready, bound

    def _slow(self):
        """Whether the device may wait for launches of the host."""
        return self._graph is None and self.host_seconds > self.estimate / 2

    def _room(self):
        """The launches that are queued behind the gate at most."""
        if self._graph is not None:
            return self._gated
        return min(self._gated, int(_GATED_SECONDS / max(self.host_seconds, 1e-6)))

    def _gated_burst(self, soak, warm, executions, blocks, plain, busy, stop):
        gate, events, launch = self.cuda.gate, self.cuda.events, self._launch()
        room = self._room()
        each = self._launches(executions)
        busy = busy and self._graph is not None
        filler = self._filler() if busy else 0
        if busy:
            room = 0  # no gate
        if filler:
            warm = max(warm, self.per_launch)
        with self._scope():
            for _ in range(self._launches(soak)):
                launch()
            closed = not plain and room > 0
            if closed:
                gate.close()

            def run(launches):
                nonlocal room, closed
                for _ in range(launches):
                    if closed and room <= 0:
                        gate.open()
                        closed = False
                    launch()
                    room -= 1

            held, begin = closed, time.perf_counter()
            run(self._launches(warm))
            if not plain:
                gate.stamp(0)
            for i in range(blocks):
                events[2 * i].record()
                run(each)
                events[2 * i + 1].record()
                if not plain:
                    gate.stamp(i + 1)
            took = (time.perf_counter() - begin) / (self._launches(warm) + blocks * each)
            self.host_seconds = min(self.host_seconds, took)
            if closed:
                gate.open()
            if busy:
                self.cuda.ended.record()
                for _ in range(0 if stop else filler):
                    launch()
                self.cuda.ended.synchronize()
            else:
                self.cuda.stream.synchronize()
        ready, late = gate.read() if held else (0.0, False)
        got = each * (self.per_launch if self._graph is not None else 1)
        out = []
        for i in range(blocks):
            seconds = events[2 * i].elapsed_time(events[2 * i + 1]) / 1e3
            out.append((seconds, got, 0.0 if plain else gate.clock(i)))
        return out, ready, late

    def _filler(self):
        """The number of launches that keep the device busy until the next burst. 0 if the graph
        takes longer than that."""
        seconds = max(self.estimate, 1e-9) * self.per_launch
        return math.ceil(_TURN / seconds) if seconds < _TURN else 0

    def _launch(self):
        return self._graph.replay if self._graph is not None else self.call

    def calls(self, n):
        with self._scope():
            for _ in range(n):
                self.call()
            self.cuda.stream.synchronize()

    def queue(self, executions):
        """Queues executions without waiting for them. Returns how many have ended since
        the load began."""
        if executions:
            launch, launches = self._launch(), self._launches(executions)
            with self._scope():
                for _ in range(launches):
                    launch()
                end = self.torch.cuda.Event()
                end.record()
            self._running.append((end, executions))
        while self._running and self._running[0][0].query():
            self._ended += self._running.pop(0)[1]
        return self._ended

    def drain(self):
        self.cuda.stream.synchronize()
        self._running, self._ended = [], 0

    def vary(self):
        """Prepares the executions in turn with a read of other data."""
        if self._turns is None:
            evict, call = self.cuda.evictor, self.call

            def both():
                evict()
                call()

            self._turns = CudaTarget(self.cuda, both, EVICT_CALLS, "require", 0.0, EVICT_CALLS)
            self._turns.prepare()

    def varied(self):
        """The executions in turn with a read of other data, and that read alone, which all
        cases share."""
        self.vary()
        return self._turns, self.cuda.reader(CudaTarget)

    def close(self):
        if self._turns is not None:
            self._turns.close()
        if self._graph is not None:
            self.cuda.stream.synchronize()
            self._graph.reset()
        self._graph = self._turns = self.call = self.kept = None
