"""When work that the power cap holds has filled the window of its slow loop."""

import unittest

from aicplan_host.cuda import FILLED_SECONDS, WINDOW_SECONDS, CappedWork


class CappedWorkTest(unittest.TestCase):
    def test_nothing_ran(self):
        self.assertFalse(CappedWork().fills(100.0))

    def test_work_fills_the_window_and_leaves_it(self):
        work = CappedWork()
        for i in range(11):
            work.add(10 + 0.1 * i, 10 + 0.1 * (i + 1))
            self.assertFalse(work.fills(10 + 0.1 * (i + 1)))
        work.add(11.1, 11.25)
        self.assertTrue(work.fills(11.25))
        # So much of the window may be something else, and no more.
        spare = WINDOW_SECONDS - FILLED_SECONDS
        self.assertTrue(work.fills(11.25 + 0.5 * spare))
        self.assertFalse(work.fills(11.25 + 1.5 * spare + 0.05))
        self.assertFalse(work.fills(20.0))

    def test_a_pause_counts_until_it_left_the_window(self):
        work = CappedWork()
        work.add(0.0, 10.0)
        work.add(10.3, 10.9)
        self.assertFalse(work.fills(10.9))
        work.add(10.9, 11.55)
        self.assertTrue(work.fills(11.55))

    def test_one_launch_longer_than_the_window(self):
        work = CappedWork()
        work.add(5.0, 9.0)
        self.assertTrue(work.fills(9.0))

    def test_what_is_over_is_forgotten(self):
        work = CappedWork()
        for i in range(10_000):
            work.add(0.2 * i, 0.2 * i + 0.1)
        self.assertLess(len(work._ran), 10)


if __name__ == "__main__":
    unittest.main()
