"""What counts as the clock of a device that has recovered."""

import random
import unittest

from aicplan_host.cuda import ReadyClock


class ReadyClockTest(unittest.TestCase):
    def test_a_coarse_timer_makes_no_device_unready(self):
        rng = random.Random(1)
        clock = ReadyClock()
        # 30 us read in steps of 1 us.
        ready = [clock.see(1980 * 30 / (30 + rng.choice((-1, 0, 0, 1)))) for _ in range(200)]
        self.assertGreater(sum(ready[8:]), 180)
        self.assertLess(clock.level, 2050)

    def test_a_glitch_is_no_clock(self):
        clock = ReadyClock()
        ready = [clock.see(2600 if i in (0, 50) else 1980 + i % 2) for i in range(100)]
        self.assertTrue(all(ready[2:]))
        self.assertLess(clock.level, 1990)

    def test_a_device_that_has_not_recovered(self):
        clock = ReadyClock()
        for _ in range(20):
            self.assertTrue(clock.see(1980))
        self.assertFalse(clock.see(1900))
        self.assertFalse(clock.see(0))  # unknown
        self.assertTrue(clock.see(1965))


if __name__ == "__main__":
    unittest.main()
