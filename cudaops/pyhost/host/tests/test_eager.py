"""Blocks without a CUDA graph, of a host that launches slower than the device runs."""

import types
import unittest

from aicplan_host import targets
from aicplan_host.targets import CudaTarget

LAUNCH, KERNEL, LIMIT = 300e-6, 16e-6, 20e-3  # seconds


class Scope:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class Event:
    def __init__(self, device):
        self.device = device

    def record(self):
        self.at = len(self.device.queued)
        self.device.queued.append(lambda start: start)

    def elapsed_time(self, other):
        return (self.device.ends[other.at] - self.device.ends[self.at]) * 1e3


class Device:
    """A device that runs what is queued in order, each from its launch on at the earliest."""

    def __init__(self, gate, kernel=KERNEL):
        self.kernel = kernel
        self.now, self.queued, self.launched, self.ends = 0.0, [], [], []
        self.opened, self.late = 0.0, False
        self.events = [Event(self) for _ in range(128)]
        self.stream = types.SimpleNamespace(wait_stream=lambda _: None, synchronize=self.synchronize)
        cuda = types.SimpleNamespace(current_stream=lambda: self.stream, stream=lambda _: Scope())
        self.torch = types.SimpleNamespace(cuda=cuda)
        self.gate = types.SimpleNamespace(
            close=self.close if gate else lambda: None, open=self.open, stamp=lambda _: None, clock=lambda _: 1000.0,
            read=lambda: (1980.0 if gate else 0.0, self.late),
        )

    def call(self):
        self.now += LAUNCH
        self.queue(lambda start: start + self.kernel)

    def queue(self, runs):
        while len(self.launched) < len(self.queued):
            self.launched.append(self.now)
        self.queued.append(runs)

    def close(self):
        self.opened = None
        begin = self.now

        def runs(start):
            self.late = self.opened > begin + LIMIT
            return max(start, min(self.opened, begin + LIMIT))

        self.queue(runs)

    def open(self):
        self.opened = self.now

    def synchronize(self):
        self.queue(lambda start: start)
        free = self.ends[-1] if self.ends else 0.0
        for runs, at in list(zip(self.queued, self.launched + [self.now]))[len(self.ends):]:
            free = runs(max(free, at))
            self.ends.append(free)
        self.now = max(self.now, free)


def target(device):
    t = CudaTarget(device, device.call, 1, "off", 1e-4)
    t.host_seconds, t.estimate = LAUNCH, device.kernel
    targets.time = types.SimpleNamespace(perf_counter=lambda: device.now)
    return t


class EagerTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, targets, "time", targets.time)

    def test_no_launches_in_the_times(self):
        for executions, blocks in ((1, 4), (2, 4), (20, 4), (500, 2)):
            out, ready, bound = target(Device(True)).burst(0, 1, executions, blocks, False)
            self.assertEqual((len(out), ready, bound), (blocks, 1980.0, False))
            for seconds, n, _ in out:
                self.assertLessEqual(n, executions)
                self.assertAlmostEqual(seconds / n, KERNEL, delta=KERNEL / 100)

    def test_without_a_gate(self):
        out, _, bound = target(Device(False)).burst(0, 1, 20, 4, False)
        self.assertTrue(bound)
        self.assertGreater(out[0][0] / out[0][1], 10 * KERNEL)

    def test_launches_are_hidden(self):
        out, _, bound = target(Device(True, 4 * LAUNCH)).burst(0, 0, 50, 4, False)  # the device is the slower one
        self.assertEqual(([n for _, n, _ in out], bound), ([50] * 4, False))

    def test_an_estimate_with_the_work_of_others_in_it(self):
        t = target(Device(True))
        t.estimate = 20 * LAUNCH
        out, _, bound = t.burst(0, 1, 100, 4, False)
        self.assertEqual((len(out), bound), (4, False))
        for seconds, n, _ in out:
            self.assertAlmostEqual(seconds / n, KERNEL, delta=KERNEL / 100)

    def test_launches_that_were_slower_before(self):
        t = target(Device(True))
        t.host_seconds = 40 * LAUNCH  # none fits behind the gate
        out, _, bound = t.burst(0, 1, 2, 2, False)
        self.assertEqual((len(out), bound), (2, False))
        self.assertAlmostEqual(out[0][0], 2 * KERNEL, delta=KERNEL / 100)

    def test_nothing_hides_the_first_launch(self):
        for gate, plain in ((True, True), (False, False)):
            for kernel, seen in ((4 * LAUNCH, True), (400 * LAUNCH, False)):
                self.assertEqual(target(Device(gate, kernel)).burst(0, 0, 1, 1, plain)[2], seen)

    def test_one_launch_fits_behind_the_gate(self):
        t = target(Device(True))
        t.call, t.host_seconds = lambda: [t.cuda.call() for _ in range(20)], 20 * LAUNCH
        out, _, bound = t.burst(0, 0, 4, 2, False)
        self.assertEqual(([n for _, n, _ in out], bound), ([1, 1], False))
        self.assertAlmostEqual(out[0][0], 20 * KERNEL, delta=KERNEL / 10)


if __name__ == "__main__":
    unittest.main()
