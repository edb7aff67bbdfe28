"""What NVML says of a device's power, and where it does not."""

import ctypes
import unittest

from aicplan_host.environment import POWER_INSTANT, UNSIGNED_INT, Nvml


class Library:
    """The calls of a driver, over the memory that they are given: a field value is 40
    bytes, with the type at 24, the status at 28 and the value at 32."""

    def __init__(self, milliwatts, kind=UNSIGNED_INT, status=0):
        self.answer = milliwatts, kind, status

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        return 0 if index == 1 else 6

    def nvmlDeviceGetFieldValues(self, handle, count, field):
        at = ctypes.addressof(field._obj)
        if ctypes.sizeof(field._obj) != 40 or count != 1 or ctypes.c_uint.from_address(at).value != POWER_INSTANT:
            return 2
        milliwatts, kind, status = self.answer
        ctypes.c_int.from_address(at + 24).value = kind
        ctypes.c_int.from_address(at + 28).value = status
        ctypes.c_uint.from_address(at + 32).value = milliwatts
        return 0

    def nvmlDeviceGetPowerManagementLimit(self, handle, value):
        value._obj.value = 700_000
        return 0


    def nvmlDeviceGetMaxClockInfo(self, handle, clock, value):
        value._obj.value = {1: 1980, 2: 3201}[clock]
        return 0

    reasons = 0

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle, value):
        value._obj.value = self.reasons
        return 0


class OldLibrary:
    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle, value):
        value._obj.value = 1 << 32 | 0x40
        return 0


def nvml(library):
    out = Nvml.__new__(Nvml)
    out._c, out._lib = ctypes, library
    return out


class PowerTest(unittest.TestCase):
    def test_power_of_the_moment(self):
        device = nvml(Library(695_040))
        self.assertEqual(device.power(1), 695_040)
        self.assertEqual(device.power_limit(1), 700_000)

    def test_clock_of_the_sms(self):
        self.assertEqual(nvml(Library(0)).max_clock(1), 1980)

    def test_slowdowns(self):
        library = Library(0)
        # Idle, clocks that are set, the power cap and the display's are none.
        for reasons, slow in ((0, False), (0x1 | 0x2 | 0x4 | 0x10 | 0x100, False), (0x4 | 0x20, True), (0x8, True), (0x40, True), (0x80, True)):
            library.reasons = reasons
            self.assertIs(nvml(library).slowdown(1), slow)
        self.assertIs(nvml(OldLibrary()).slowdown(1), True)
        with self.assertRaises(OSError):
            nvml(library).slowdown(2)

    def test_what_is_not_said_is_an_os_error(self):
        for device, index in ((nvml(Library(0, status=3)), 1), (nvml(Library(0, kind=0)), 1), (nvml(Library(1)), 2), (nvml(OldLibrary()), 1)):
            with self.assertRaises(OSError):
                device.power(index)

    def test_an_older_library_lacks_a_call(self):
        library = Library(1)
        with self.assertRaisesRegex(OSError, "has no nvmlDeviceGetTotalEnergyConsumption"):
            nvml(library).energy(1)


if __name__ == "__main__":
    unittest.main()
