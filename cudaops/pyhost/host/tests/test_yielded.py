"""What a function that goes through a sweep has yielded before it raises."""

import inspect
import unittest
from unittest import mock

from aicplan_host.functions import FunctionOp


def op_of(fn, **binding):
    op = FunctionOp.__new__(FunctionOp)
    op.host = mock.Mock()
    op.name, op.binding, op._fn, op._params, op._open = "x", binding, fn, inspect.signature(fn).parameters, False
    return op


def sweeping(n, sweep):
    for point in sweep:
        if point["m"] == 3:
            raise RuntimeError("no row for m=3")
        yield dict(point, latency=n)


def single(m):
    yield {"m": m, "latency": 1.0}
    raise RuntimeError("later")


class YieldedTest(unittest.TestCase):
    def test_kept(self):
        case = {"params": {"n": 2.5}, "sweep": [{"m": 1}, {"m": 2}, {"m": 3}, {"m": 4}]}
        with self.assertRaisesRegex(RuntimeError, "no row for m=3") as got:
            op_of(sweeping, columns={"backend": "b"}).run(case)
        self.assertEqual(got.exception.rows, [{"backend": "b", "m": m, "latency": 2.5} for m in (1, 2)])

    def test_one_point(self):
        with self.assertRaises(RuntimeError) as got:
            op_of(single).run({"params": {"m": 1}})
        self.assertFalse(hasattr(got.exception, "rows"))

    def test_whole(self):
        rows = op_of(sweeping).run({"params": {"n": 1.0}, "sweep": [{"m": 1}]})
        self.assertEqual(rows, [{"m": 1, "latency": 1.0}])


if __name__ == "__main__":
    unittest.main()
