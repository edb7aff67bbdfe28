import unittest

from aicplan_host.deferring import Later
from aicplan_host.joining import Form


class LaterTest(unittest.TestCase):
    def setUp(self):
        self.branches = []
        self.a, self.b = (Later(v, {h: 1.0}, self.branches) for h, v in ((1, 0.5), (2, 0.2)))
        self.measured = {1: {"latency": 3.0}, 2: {"latency": 1.0}}

    def value(self, number):
        self.assertIsInstance(number, Later)
        return Form(number.terms).value(self.measured)

    def test_sums_and_multiples_are_worked_out_later(self):
        a, b = self.a, self.b
        for number, estimate, want in (
            (a / 4, 0.125, 0.75), (2 * a - b, 0.8, 5.0), (1.5 - a, 1.0, -1.5), (sum([a, b]), 0.7, 4.0), (round(a - b, 6), 0.3, 2.0), (-a * 2, -1.0, -6.0),
        ):
            self.assertAlmostEqual(float(number), estimate)
            self.assertAlmostEqual(self.value(number), want)
        self.assertEqual(self.branches, [])

    def test_comparisons_are_noted(self):
        self.assertEqual(float(max(0.0, self.a - self.b)), 0.3)
        self.assertTrue(self.a > self.b and self.b <= 0.3)
        self.assertEqual([outcome for *_, outcome in self.branches], [True, True, True])

    def test_what_cannot_be_worked_out_is_noted(self):
        self.assertAlmostEqual(self.a / self.b, 2.5)
        self.assertAlmostEqual(1 / self.b, 5.0)
        self.assertAlmostEqual(self.a * self.b, 0.1)
        self.assertAlmostEqual(self.a**2, 0.25)
        self.assertEqual(self.branches, [None] * 4)

    def test_text_and_plain_numbers_have_the_estimate(self):
        self.assertEqual(("%.3f" % self.a, f"{self.b:.2f}", type(float(self.a))), ("0.500", "0.20", float))


if __name__ == "__main__":
    unittest.main()
