"""How long the graphs of a case are asked to be."""

import types
import unittest

from aicplan_host.measuring import Bench


class Target:
    """Launches of a millisecond."""

    per_launch = 1

    def __init__(self):
        self.asked = None

    def warm(self):
        return 1e-5

    def prepare(self, estimate, seconds):
        self.asked = (estimate, seconds)

    def block(self, n):
        return n * 1e-3


def asked(settle=0.0, **settings):
    bench, target = Bench(types.SimpleNamespace(type="cuda", index=0), settings, print), Target()
    bench._launches(target, 5e-4, settle)
    return target.asked


class GraphTest(unittest.TestCase):
    def test_a_visited_case(self):
        self.assertEqual(asked(), (1e-5, 60e-6))
        self.assertEqual(asked(min_block_seconds=5e-3), (1e-5, 5e-3))

    def test_one_that_runs_without_end(self):
        self.assertEqual(asked(settle=2.0), (1e-5, 2e-3))
        self.assertEqual(asked(settle=2.0, min_block_seconds=5e-3), (1e-5, 5e-3))


if __name__ == "__main__":
    unittest.main()
