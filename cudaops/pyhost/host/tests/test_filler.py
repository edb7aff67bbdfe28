"""What a device works on after a burst."""

import unittest

from aicplan_host.targets import CudaTarget

from .test_rotation import Device, Event


class FillerTest(unittest.TestCase):
    def test_stop(self):
        device = Device()
        device.ended, device.events = Event(), [Event() for _ in range(6)]
        target = CudaTarget(device, lambda: device.kernel(0), 1, "require", 10e-6)
        target.prepare()
        ran = []
        for stop in (0, 1):
            device.order.clear()
            target.burst(0, 0, 2 * target.per_launch, 3, False, 1, stop)
            ran.append(len(device.order) // target.per_launch)
        self.assertEqual(ran[1], 1 + 3 * 2, "a warm-up and the blocks")
        self.assertGreater(ran[0], ran[1])


if __name__ == "__main__":
    unittest.main()
