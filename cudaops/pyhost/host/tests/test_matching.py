import enum
import types
import unittest

from aicplan_host.errors import HostError
from aicplan_host.matching import mapped, plain, positional, word


class Mode(enum.Enum):
    BLOCK = 1
    NAMED = "named"


class MatchingTest(unittest.TestCase):
    def test_both_sides_become_the_same(self):
        dtype = type("dtype", (), {"__str__": lambda self: "torch.bfloat16"})()
        for value, want in [
            (Mode.BLOCK, "block"), (Mode.NAMED, "named"), (types.SimpleNamespace(name="DeepGemm"), "deepgemm"),
            (2.0, 2), ([1, [2.0]], (1, (2,))), (dtype, "bfloat16"), (None, None), (False, False),
        ]:
            self.assertEqual(plain(value), want)

    def test_maps(self):
        self.assertEqual([word(None), word(True), word(8)], ["null", "true", "8"])
        self.assertEqual(mapped({"null": 0}, None, "op x"), 0)
        self.assertEqual(mapped(None, 5, "op x"), 5)
        with self.assertRaisesRegex(HostError, r"op x: .* no entry for 7 \(it has 1, 2\)"):
            mapped({"2": 0, "1": 0}, 7, "op x")

    def test_parameters_that_a_case_fills(self):
        def run(exit_stack, a, b=1, *, device=None):
            pass

        self.assertEqual(positional(run), ["a", "b"])


if __name__ == "__main__":
    unittest.main()
