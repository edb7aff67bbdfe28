"""What runs before an elementwise kernel of plans/modules/torch when it is measured."""

import importlib.util
import os
import types
import unittest

PATH = os.path.join(os.path.dirname(__file__), *[".."] * 4, "plans", "modules", "torch", "layer.py")
L2 = 50 << 20
RIDGE = 200  # operations per byte from which on an H200's products are bound by what they compute


class Tensor:
    def __init__(self, *shape, written=False):
        self.shape, self.written = shape, written

    def bytes(self):
        return 2 * self.shape[0] * self.shape[-1]


class Bench:
    """Runs what it is to measure once, on shapes, and answers that it took as many
    milliseconds as there were kernels. calls has the kernels of each time."""

    settings = {"protocol": "adaptive"}
    verify = False

    def __init__(self):
        self.calls = []
        functional = types.SimpleNamespace(linear=self._linear, rms_norm=lambda x, *_: self._kernel(x))
        self.torch = types.SimpleNamespace(bfloat16="bfloat16", nn=types.SimpleNamespace(functional=functional))

    def rotate(self, *specs, keep=()):
        return [tuple(Tensor(*shape) for shape, _ in (*keep, *specs))]

    def unsupported(self, reason):
        raise AssertionError(reason)

    def __call__(self, fn, *, operands, **columns):
        self.calls.append([])
        fn(*operands[0])
        took = float(len(self.calls[-1]))
        return {"latency": took, "p10": took, "p90": took, "rel_stdev": 0.0, "executions": 1, **columns}

    def _linear(self, x, weight):
        assert x.shape[1] == weight.shape[1], (x.shape, weight.shape)
        out = Tensor(x.shape[0], weight.shape[0], written=True)
        self.calls[-1].append((x, weight, out))
        return out

    def _kernel(self, x):
        assert x.written, "reads what nothing wrote"
        self.calls[-1].append(x)
        return x


class ElementwiseTest(unittest.TestCase):
    def measured(self, num_tokens):
        spec = importlib.util.spec_from_file_location("layer_of_plans", PATH)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        bench = Bench()
        row = module.elementwise("rms_norm", num_tokens, 5120, bench)
        return row, bench.calls

    def test_the_products_before_it_are_bound_by_memory(self):
        # The power cap holds one that computes much, and the kernel behind it would
        # let that one run faster than alone: the difference would be too small.
        for num_tokens in (1, 64, 65, 256, 1024, 4096, 16384):
            with self.subTest(num_tokens=num_tokens):
                _, (both, alone) = self.measured(num_tokens)
                for x, weight, out in alone:
                    operations = 2 * x.shape[0] * x.shape[1] * out.shape[1]
                    self.assertLess(operations / (x.bytes() + weight.bytes() + out.bytes()), RIDGE / 2)
                self.assertEqual(len(both), len(alone) + 1)

    def test_it_reads_what_the_product_before_it_wrote(self):
        for num_tokens in (1, 64, 65, 4096):
            with self.subTest(num_tokens=num_tokens):
                row, (both, _) = self.measured(num_tokens)
                self.assertEqual(both[-1].shape, (num_tokens, 5120))
                self.assertIs(both[-1], both[-2][2])
                self.assertEqual((row["latency"], row["method"]), (1.0, "in_chain"))

    def test_the_caches_hold_none_of_its_own(self):
        for num_tokens in (1, 64, 65, 4096):
            _, (both, _) = self.measured(num_tokens)
            passed = sum(weight.bytes() for _, weight, _ in both[:-1])
            self.assertGreaterEqual(passed, L2 / 2)


if __name__ == "__main__":
    unittest.main()
