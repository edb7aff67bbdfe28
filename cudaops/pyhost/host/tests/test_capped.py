"""When work that the power cap holds has filled the window of its slow loop."""

import types
import unittest
from unittest import mock

from aicplan_host import capping
from aicplan_host.capping import (
    FILLED_SECONDS,
    LIMIT_SHARE,
    OVER_SHARE,
    PERIOD_SECONDS,
    TAKE_SECONDS,
    TAKES,
    WINDOW_SECONDS,
    Board,
    CappedWork,
    PowerCap,
)


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


class Nvml:
    def __init__(self, limit, *drawn, highest=None):
        self.limit, self.drawn, self.index, self.highest = limit, list(drawn), None, highest

    def power_limit(self, index):
        self.index = index
        return self._said(self.limit)

    def power(self, index):
        return self._said(self.drawn.pop(0))

    def max_clock(self, index):
        return self._said(self.highest)

    @staticmethod
    def _said(value):
        if value is None:
            raise OSError("nvmlDeviceGetFieldValues failed with status 3")
        return value


class BoardTest(unittest.TestCase):
    def test_share_of_the_limit(self):
        nvml = Nvml(700_000, 350_000, 714_000)
        board = Board(nvml, 3)
        self.assertEqual([board.share(), board.share()], [0.5, 1.02])
        self.assertEqual(nvml.index, 3)

    def test_nobody_knows(self):
        self.assertEqual(Board(None, 0).share(), 0)
        self.assertEqual(Board(Nvml(None, 800_000), 0).share(), 0)
        self.assertEqual(Board(Nvml(0, 800_000), 0).share(), 0)

    def test_a_driver_that_does_not_say_it_is_asked_once(self):
        nvml = Nvml(700_000, None, 800_000)
        board = Board(nvml, 0)
        self.assertEqual([board.share() for _ in range(3)], [0, 0, 0])
        self.assertFalse(board.says)
        self.assertEqual(nvml.drawn, [800_000])


class Target:
    """Says these clocks of the work that it runs, and the last of them from then on."""

    def __init__(self, *clocks):
        self.clocks, self.looks = list(clocks), 0

    def clock(self, work):
        self.looks += 1
        work()
        return None, self.clocks.pop(0) if len(self.clocks) > 1 else self.clocks[0]


class KeepTest(unittest.TestCase):
    LEVEL = 1980.0

    def keep(self, target, *takes, board=None, filled=False):
        """What it says, and how often the case was timed and looked at: takes are the
        samples of each time, the last of them from then on. filled says that held work
        ran until then."""
        now, samples, takes = [0.0], [], list(takes or [[1.0, 1.0]])
        timed = self.timed = []  # seconds

        def run(seconds):
            now[0] += seconds

        def take(seconds):
            now[0] += seconds
            timed.append(seconds)
            samples[:] = takes.pop(0) if len(takes) > 1 else takes[0]

        cap = PowerCap(types.SimpleNamespace(level=self.LEVEL), board or Board(None, 0))
        if filled:
            cap._work.add(-WINDOW_SECONDS, 0.0)
        with mock.patch.object(capping, "time", types.SimpleNamespace(perf_counter=lambda: now[0])):
            return (*cap.keep(target, run, take, samples), len(timed), target.looks - len(timed))

    def test_a_case_that_the_cap_leaves_alone(self):
        self.assertEqual(self.keep(Target(1800.0)), (False, 1800.0, 1, 2))
        self.assertEqual(self.keep(Target(0.0)), (False, 0.0, 1, 2))  # no clock

    def test_a_held_case_runs_for_the_window(self):
        held, mhz, timed, looks = self.keep(Target(1590.0, 1590.0, 1360.0))
        self.assertEqual((held, mhz, timed), (True, 1360.0, 1))
        self.assertGreaterEqual(looks, 12)

    def test_timed_again_where_the_clock_moved(self):
        # The look before was at another clock; the time of an execution moved.
        self.assertEqual(self.keep(Target(1900.0, 1900.0, 1800.0)), (False, 1800.0, 2, 2))
        self.assertEqual(self.keep(Target(1800.0), [1.0, 1.0, 1.6, 1.6], [1.0] * 4), (False, 1800.0, 2, 2))
        # Noise is no reason, and an end there is.
        self.assertEqual(self.keep(Target(1800.0), [1.0, 1.02, 1.0, 1.02])[2], 1)
        self.assertEqual(self.keep(Target(1800.0), [1.0, 2.0])[2], TAKES)

    def test_a_held_case_whose_clock_moves_is_timed_for_a_period(self):
        short, long = TAKE_SECONDS, PERIOD_SECONDS
        looks = self.keep(Target(1380.0), [1.0, 1.01])[3]
        self.assertEqual(self.timed, [short])
        # The time of an execution moved, by less than another case may; and in the
        # period behind it, whose mean counts.
        self.keep(Target(1380.0), [1.0, 1.02], [1.0, 1.02])
        self.assertEqual(self.timed, [short, long])
        # Its clock did, to what it was a look ago.
        self.assertEqual(self.keep(Target(*[1380.0] * looks, 1410.0, 1380.0))[:2], (True, 1380.0))
        self.assertEqual(self.timed, [short, long])
        # A cut within the period.
        self.keep(Target(1380.0), [1.0, 1.02], [1.0, 1.05], [1.0, 1.0])
        self.assertEqual(self.timed, [short, long, long])
        self.keep(Target(1800.0), [1.0, 1.02])
        self.assertEqual(self.timed, [short])

    def test_a_case_that_is_seen_to_be_held_while_it_is_timed(self):
        # 0.891 of the idle clock in the looks, 0.886 while it is timed; held, it keeps 0.82.
        held, mhz, timed, looks = self.keep(Target(1764.0, 1764.0, 1755.0, 1755.0, 1625.0))
        self.assertEqual((held, mhz, timed), (True, 1625.0, 2))
        self.assertGreaterEqual(looks, 2 + 10)
        # The same by its power, where no clock is known.
        drawn = [670_000, 670_000, *[690_000] * 40]
        self.assertGreaterEqual(self.keep(Target(0.0), board=Board(Nvml(700_000, *drawn), 0))[3], 2 + 10)
        # Also where that is the last time that it is timed.
        self.assertEqual(self.keep(Target(*[1900.0, 1800.0] * 3, 1755.0, 1755.0, 1625.0), [1.0, 2.0])[1:3], (1625.0, TAKES + 1))

    def test_power_says_which_case_is_held(self):
        for share, looks in ((LIMIT_SHARE, 12), (LIMIT_SHARE - 0.001, 2)):
            self.assertGreaterEqual(self.keep(Target(0.0), board=Board(Nvml(1e6, *[1e6 * share] * 40), 0))[3], looks)
            self.assertLess(self.keep(Target(0.0), board=Board(Nvml(1e6, *[1e6 * share] * 40), 0))[3], looks + 3)

    def test_a_locked_clock(self):
        level = types.SimpleNamespace(level=self.LEVEL)
        for highest, locked in ((None, False), (1980, False), (2120, False), (2140, True)):
            self.assertIs(PowerCap(level, Board(Nvml(1e6, highest=highest), 0)).locked, locked)
        level.level = 0  # no clock can be read
        self.assertFalse(PowerCap(level, Board(Nvml(1e6, highest=1980), 0)).locked)
        # Power tells which case is held; without it all of them run for the window.
        for limit, looks in ((1e6, 2), (None, 12)):
            board = Board(Nvml(limit, *[5e5] * 40, highest=3000), 0)
            self.assertGreaterEqual(self.keep(Target(1980.0), board=board)[3], looks)
            self.assertLess(self.keep(Target(1980.0), board=board)[3], looks + 3)

    def test_behind_held_work(self):
        # It has filled the second already, also for a case whose clock is low.
        self.assertEqual(self.keep(Target(1590.0), filled=True)[3], 2)
        # Not for one that draws more than the limit: its clock will fall.
        for share, looks in ((OVER_SHARE, 2), (OVER_SHARE + 0.01, 13)):
            self.assertEqual(self.keep(Target(1780.0), board=Board(Nvml(1e6, *[1e6 * share] * 40), 0), filled=True)[3], looks)

    def test_a_cut_draws_less_than_the_limit(self):
        # No clock; the limit is seen in the first look alone.
        drawn = [700_000] + [500_000] * 40
        self.assertGreaterEqual(self.keep(Target(0.0), board=Board(Nvml(700_000, *drawn), 0))[3], 12)
        self.assertEqual(self.keep(Target(0.0), board=Board(Nvml(700_000, *drawn[1:]), 0))[3], 2)


if __name__ == "__main__":
    unittest.main()
