import enum
import math
import types
import unittest

from aicplan_host.errors import HostError
from aicplan_host.rows import clean_rows, number, scalar


class Kind(enum.Enum):
    FP8 = "fp8"
    PAIR = (1, 2)


class RowsTest(unittest.TestCase):
    def test_scalars(self):
        item = types.SimpleNamespace(item=lambda: 3, shape=())
        for value, want in [
            (1, 1), (True, True), (None, None), ("x", "x"), (1.5, 1.5), (math.nan, "NaN"),
            (-math.inf, "-Infinity"), (Kind.FP8, "fp8"), (Kind.PAIR, "PAIR"), (item, 3),
        ]:
            self.assertEqual(scalar("c", value), want)
        self.assertIs(scalar("c", True), True)
        with self.assertRaisesRegex(HostError, "column 'c' holds a list"):
            scalar("c", [1])

    def test_faults_of_rows_are_named(self):
        for rows, text in [
            (None, "returned nothing"),
            ([], "no rows"),
            ([1], "returned a int"),
            ({"n": 1}, r"without a latency \(columns: n\)"),
            ({"latency": True}, "without a latency"),
            ({1: 2, "latency": 1.0}, "column name 1"),
        ]:
            with self.assertRaisesRegex(HostError, text):
                clean_rows(rows, "op")
        self.assertEqual(clean_rows({"latency": math.nan}, "op"), [{"latency": "NaN"}])

    def test_numbers_of_text(self):
        self.assertEqual([number(t) for t in ("12", "1.50", "1e-3", "fp8", "")], [12, 1.5, 0.001, "fp8", ""])


if __name__ == "__main__":
    unittest.main()
