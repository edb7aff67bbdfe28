"""The order in which operand sets are read; the vectors are shared with the
native runtime's tests."""

import contextlib
import json
import pathlib
import types
import unittest

from aicplan_host.cuda import NoGate
from aicplan_host.preparing import _Rotating
from aicplan_host.targets import CudaTarget

VECTORS = pathlib.Path(__file__).parents[3] / "measure" / "testdata" / "rotation.json"


class Graph:
    def __init__(self, recorded, order):
        self.recorded, self.order = recorded, order

    def replay(self):
        self.order.extend(self.recorded)

    def reset(self):
        pass


class Event:
    def __init__(self, **_):
        pass

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, _):
        return 1e-3


class Device:
    """As much of a device as a target uses: what is called while a graph is
    captured runs when the graph is replayed."""

    def __init__(self):
        self.order, self.recording = [], None
        self.gate = NoGate(types.SimpleNamespace(cuda=None))
        stream = types.SimpleNamespace(wait_stream=lambda _: None, synchronize=lambda: None)
        scope = types.SimpleNamespace(__enter__=lambda: None, __exit__=lambda *_: None)
        self.stream, self.events = stream, [Event(), Event()]
        self.temporary = contextlib.nullcontext
        self.torch = types.SimpleNamespace(cuda=types.SimpleNamespace(current_stream=lambda: stream, stream=lambda _: Scope(scope), synchronize=lambda: None))

    def kernel(self, at):
        (self.order if self.recording is None else self.recording).append(at)

    def capture(self, call, calls):
        self.recording = []
        for _ in range(calls):
            call()
        graph, self.recording = Graph(self.recording, self.order), None
        return graph


class Scope:
    def __init__(self, _):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class RotationTest(unittest.TestCase):
    def test_order(self):
        tried = 0
        for case in json.loads(VECTORS.read_text())["cases"]:
            if "python" not in case:
                continue
            tried += 1
            sets, wanted = case["sets"], case["wanted"]
            device = Device()
            call = _Rotating(device.kernel, [(i,) for i in range(sets)])
            target = CudaTarget(device, call, sets, "require", wanted * 0.5e-6)
            target.prepare()
            self.assertEqual(target.per_launch, case["python"]["per_launch"], case)
            for launches in (1, 3, 2):
                target.burst(0, 0, launches * target.per_launch, 1, False)
            first = device.order[0]
            for i, at in enumerate(device.order):
                self.assertEqual(at, (first + i) % sets, "%s: execution %d" % (case, i))
        self.assertGreater(tried, 8)


if __name__ == "__main__":
    unittest.main()
