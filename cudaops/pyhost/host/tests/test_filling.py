import array
import contextlib
import sys
import types
import unittest
import unittest.mock

from aicplan_host.filling import Filling


class Device:
    def __init__(self, type):
        self.type = type

    def __str__(self):
        return self.type


class TensorBase:
    capturing = compiling = False

    def __init__(self, dtype="bfloat16", device="cuda"):
        self.dtype, self.device, self.values = dtype, Device(device), None

    def detach(self):
        return self

    def numel(self):
        return 1

    def normal_(self, generator):
        if self.dtype == "float64":
            raise RuntimeError("more than one element of the written-to tensor refers to a single memory location")
        self.values = "%d.%d" % (generator.seed, generator.drawn)
        generator.drawn += 1

    def new_empty(self):
        return Tensor(self.dtype, self.device.type)


class Tensor(TensorBase):
    pass


class Processor(Tensor):
    """Of a processor: a view of numbers, which say how they were made."""

    def __init__(self, numbers, contiguous=True):
        super().__init__("bfloat16", "cpu")
        self.numbers, self.contiguous = numbers, contiguous

    def numel(self):
        return len(self.numbers)

    def is_contiguous(self):
        return self.contiguous

    def view(self, size):
        assert size == -1
        return self

    def narrow(self, dimension, start, length):
        return Processor(memoryview(self.numbers)[start : start + length])

    def copy_(self, other):
        self.numbers[:] = other.numbers

    def normal_(self, generator):
        for at in range(len(self.numbers)):
            generator.drawn += 1
            self.numbers[at] = 100 * generator.seed + generator.drawn


class Generator:
    def __init__(self, device):
        self.drawn = 0

    def manual_seed(self, seed):
        self.seed = seed


def fake_torch():
    torch = types.ModuleType("torch")
    torch.bfloat16, torch.float16, torch.float32, torch.float64 = "bfloat16", "float16", "float32", "float64"
    torch.Tensor, torch.Generator, torch.no_grad = Tensor, Generator, contextlib.nullcontext
    torch.empty = lambda dtype="bfloat16", device="cuda": Tensor(dtype, device)
    torch.empty_like = lambda like: Tensor(like.dtype, like.device.type)
    torch.compiler = types.SimpleNamespace(is_compiling=lambda: Tensor.compiling)
    torch.cuda = types.SimpleNamespace(is_current_stream_capturing=lambda: Tensor.capturing)
    return torch


class FillingTest(unittest.TestCase):
    def setUp(self):
        self.torch = fake_torch()
        modules = unittest.mock.patch.dict(sys.modules, torch=self.torch)
        modules.start()
        self.addCleanup(modules.stop)
        self.bench = types.SimpleNamespace(seed=7)
        self.filling = Filling(self.bench)

    def test_fills_what_a_case_prepares(self):
        torch = self.torch
        with self.filling.preparing():
            weight = torch.empty()
            self.assertEqual(weight.values, "7.0")
            self.assertEqual(torch.empty_like(weight).values, "7.1")
            self.assertEqual(weight.new_empty().values, "7.2")
            self.assertIsNone(torch.empty("float8_e4m3fn").values)
            self.assertIsNone(torch.empty("int64").values)
            self.assertIsNone(torch.empty("bfloat16", "meta").values)
            self.assertIsNone(torch.empty("float64").values)  # torch refuses it
            self.assertEqual(torch.empty("float32", "cpu").values, "7.0")  # another device's own
            with self.filling.paused():  # the kernel is timed
                self.assertIsNone(torch.empty().values)
            self.assertEqual(torch.empty().values, "7.3")
            Tensor.capturing = True
            self.addCleanup(setattr, Tensor, "capturing", False)
            self.assertIsNone(torch.empty().values)

    def test_leaves_compiled_code_alone(self):
        # torch.compile traces the functions that it finds, and compiles anew, at most a
        # few times, where it finds others.
        before = []
        for _ in range(2):
            with self.filling.preparing():
                before.append((self.torch.empty, self.torch.empty_like, Tensor.new_empty))
        self.assertEqual(*before)
        Tensor.compiling = True
        self.addCleanup(setattr, Tensor, "compiling", False)
        with self.filling.preparing():
            self.assertIsNone(self.torch.empty().values)

    def test_scripts_of_torch_know_it(self):
        # As torch.jit.script looks functions up: it cannot compile Python's own.
        table = {id(self.torch.empty): "aten::empty"}
        tracing = []
        self.torch.jit = types.SimpleNamespace(
            is_tracing=lambda: bool(tracing),
            _builtins=types.SimpleNamespace(
                _find_builtin=lambda f: table.get(id(f)), _register_builtin=lambda f, name: table.update({id(f): name})
            ),
        )
        with self.filling.preparing():
            self.assertEqual(table.get(id(self.torch.empty)), "aten::empty")
            self.assertNotIn(id(self.torch.empty_like), table)
            tracing.append(True)
            self.assertIsNone(self.torch.empty().values)

    def test_a_default_device_stays_one(self):
        # torch notes once, when a default device is first used, which functions allocate.
        torch, noted = self.torch, []

        class Place(contextlib.nullcontext):
            def __init__(self, name):
                super().__init__()
                if not noted:
                    noted.append(torch.empty)

        torch.device = Place
        with self.filling.preparing(), torch.device("cuda"):
            pass
        self.assertEqual(noted, [torch.empty])

    def test_a_processor_draws_a_part(self):
        torch = self.torch
        torch.Tensor = Processor
        torch.empty = lambda size, contiguous=True: Processor(array.array("q", [0] * size), contiguous)
        with unittest.mock.patch("aicplan_host.filling._DRAWN", 5), self.filling.preparing():
            self.assertEqual(list(torch.empty(5).numbers), [701, 702, 703, 704, 705])
            self.assertEqual(list(torch.empty(13).numbers), [706, 707, 708, 709, 710] * 2 + [706, 707, 708])
            self.assertEqual(list(torch.empty(7, contiguous=False).numbers), [711 + i for i in range(7)])
            self.assertEqual(list(torch.empty(0).numbers), [])

    def test_torch_without_a_compiler(self):
        del self.torch.compiler
        with self.filling.preparing():
            self.assertEqual(self.torch.empty().values, "7.0")

    def test_leaves_torch_as_it_was(self):
        before = dict(vars(self.torch))
        methods = dict(vars(Tensor))
        with self.assertRaises(ValueError), self.filling.preparing():
            kept = self.torch.empty
            raise ValueError("the case fails")
        self.assertEqual(vars(self.torch), before)
        self.assertEqual(dict(vars(Tensor)), methods)
        self.assertIsNone(kept().values)  # who kept the function gets memory as it is

    def test_same_values_for_a_case_each_time(self):
        for _ in range(2):
            with self.filling.preparing():
                self.assertEqual(self.torch.empty().values, "7.0")
        self.bench.seed = 8
        with self.filling.preparing():
            self.assertEqual(self.torch.empty().values, "8.0")

    def test_without_torch(self):
        del sys.modules["torch"]
        with self.filling.preparing(), self.filling.paused():
            pass


if __name__ == "__main__":
    unittest.main()
