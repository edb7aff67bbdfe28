import enum
import math
import types
import unittest

from aicplan_host.errors import HostError
from aicplan_host.rows import clean_rows, column, number, scalar


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
            ({"latency": True}, "latency is True, which is no number"),
            ({1: 2, "latency": 1.0}, "column name 1"),
        ]:
            with self.assertRaisesRegex(HostError, text):
                clean_rows(rows, "op")
        self.assertEqual(clean_rows({"latency": math.nan}, "op"), [{"latency": "NaN"}])
        # Of several rows the engine judges each by itself.
        some = [{"latency": 1.0}, {"latency": "n/a"}, {"latency": None}, {"n": 1}]
        self.assertEqual(clean_rows(some, "op"), some)
        with self.assertRaisesRegex(HostError, "is 'n/a', which is no number"):
            clean_rows(some[1:], "op")

    def test_numbers_of_text(self):
        for text, want in [
            ("12", 12), ("-4", -4), ("0", 0), ("1.50", 1.5), ("1e-3", 0.001), (".5", 0.5), ("2.", 2.0), ("inf", math.inf),
            ("9223372036854775807", 2**63 - 1), ("9223372036854775808", 2.0**63),
        ]:
            got = number(text)
            self.assertEqual((got, type(got)), (want, type(want)))
        # What Python would read as another number than the engine does.
        for text in ("007", "-007", "1_0", " 5 ", "5 ", "+5", "-0", "0x10", "\u0665", "1e400", "9" * 5000, "1.0_0", "00.5", "fp8", ""):
            got = number(text)
            self.assertIsInstance(got, float if text == "-0" else str)
        self.assertEqual(column(["1", "", "3"]), [1, None, 3])
        self.assertEqual(column(["1", "0.5"]), [1.0, 0.5])
        self.assertEqual(column(["True", "False"]), [True, False])
        self.assertEqual(column(["1", "nan", "fp8"]), ["1", "nan", "fp8"])
        self.assertEqual(column(["1", "007"]), ["1", "007"])


if __name__ == "__main__":
    unittest.main()
