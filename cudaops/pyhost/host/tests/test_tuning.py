import os
import tempfile
import types
import unittest
import unittest.mock

from aicplan_host.tuning import Tuning

try:
    import torch
    from torch._dynamo import callback
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "needs torch")
class TuningTest(unittest.TestCase):
    """The parts of torch that are not public: it calls back before it compiles, and takes an exception for an end."""

    def test_torch_compiles_for_the_example_first(self):
        bench = types.SimpleNamespace(stopped=None, offers=types.SimpleNamespace(here=True, seq=1))
        tuning = Tuning(bench, print, lambda case, example: None, lambda err: False)
        compiled = torch.compile(lambda x: (x.float() * 2 + 1).relu(), dynamic=True, backend="eager")
        shapes, at = [], []

        class Op:
            def run(self, case):
                at[:] = [case["params"]["m"]]
                compiled(torch.ones(*at, 3))
                if bench.stopped is not None:
                    raise bench.stopped
                return at[0]

        def case(m):
            return {"id": "case%d" % m, "seq": 1, "params": {"m": m}, "example": {"id": "the-example", "params": {"m": 64}}}

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}):
            rows = [tuning.run(Op(), case(7))]
            note = callback.on_compile_start(lambda *_: shapes.append(at[0]))
            self.addCleanup(callback.callback_handler.remove_start_callback, note)
            rows += [tuning.run(Op(), case(m)) for m in (4096, 64, 5)]
        self.assertEqual(rows, [7, 4096, 64, 5])
        self.assertEqual(shapes, [], "code for any shape was compiled again")

    def test_the_first_shape_is_that_of_the_example(self):
        bench = types.SimpleNamespace(stopped=None, offers=types.SimpleNamespace(here=True, seq=1))
        tuning = Tuning(bench, print, lambda case, example: None, lambda err: False)
        seen = []

        def backend(graph, inputs):
            seen.extend(x.shape for x in inputs if isinstance(x, torch.Tensor))
            return graph.forward

        compiled = torch.compile(lambda x: x * 3, dynamic=True, backend=backend)

        class Op:
            def run(self, case):
                compiled(torch.ones(case["params"]["m"], 3))
                if bench.stopped is not None:
                    raise bench.stopped
                return "row"

        case = {"id": "case", "seq": 1, "params": {"m": 7}, "example": {"id": "the-example", "params": {"m": 64}}}
        self.assertEqual(tuning.run(Op(), case), "row")
        hints = [int(s) if isinstance(s, int) else s.node.hint for shape in seen for s in shape]
        self.assertEqual(hints[0], 64)

    def test_each_shape_has_its_code_if_torch_chooses(self):
        bench = types.SimpleNamespace(stopped=None, offers=types.SimpleNamespace(here=True, seq=1))
        tuning = Tuning(bench, print, lambda case, example: None, lambda err: False)
        seen = []

        def backend(graph, inputs):
            seen.append(inputs[0].shape[0])
            return graph.forward

        compiled = torch.compile(lambda x: x * 3, backend=backend)
        op = types.SimpleNamespace(run=lambda case: compiled(torch.ones(case["params"]["m"], 3)).shape[0])
        sizes = [7, *range(9, 40)]
        self.assertEqual([tuning.run(op, {"id": str(m), "seq": 1, "params": {"m": m}}) for m in sizes], sizes)
        self.assertEqual(seen, sizes, "compiled for another shape, or not at all")
        self.assertTrue(all(isinstance(m, int) for m in seen), "compiled for any shape")


if __name__ == "__main__":
    unittest.main()
