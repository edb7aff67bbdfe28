"""What counts as the clock of a device that has recovered."""

import random
import unittest

from aicplan_host.cuda import ReadyClock


class ReadyClockTest(unittest.TestCase):
    def test_a_coarse_timer_makes_no_device_unready(self):
        rng = random.Random(1)
        clock = ReadyClock()

        def reading():  # 30 us read in steps of 1 us
            return 1980 * 30 / (30 + rng.choice((-1, 0, 0, 1)))

        ready = [clock.see(reading(), reading()) for _ in range(200)]
        self.assertGreater(sum(ready[8:]), 180)
        self.assertLess(clock.level, 2060)

    def test_a_glitch_is_no_clock(self):
        clock = ReadyClock()
        ready = [clock.see(2600 if i in (0, 50) else 1980, 1981) for i in range(100)]
        self.assertTrue(all(ready))
        self.assertLess(clock.level, 1990)

    def test_heavy_work_between_readings_is_no_noise(self):
        # Half of the readings find a device that has not recovered.
        clock = ReadyClock()
        for i in range(200):
            mhz = (1980, 1600, 1975, 1700)[i % 4]
            self.assertEqual(clock.see(mhz, mhz + 1), mhz > 1900, mhz)

    def test_a_device_that_has_not_recovered(self):
        clock = ReadyClock()
        for _ in range(20):
            self.assertTrue(clock.see(1980, 1980))
        self.assertFalse(clock.see(1900, 1900))
        self.assertFalse(clock.see(0, 0))  # unknown
        self.assertTrue(clock.see(1965, 1966))


if __name__ == "__main__":
    unittest.main()
