"""What the worker runs on: the device, the processor, installed packages."""

import importlib
import importlib.util
import platform

POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT
UNSIGNED_INT = 1  # NVML_VALUE_TYPE_UNSIGNED_INT
SM_CLOCK = 1  # NVML_CLOCK_SM
# Reasons for a low clock under which nothing should be measured: slowdowns by the
# hardware, by heat as the driver or the hardware sees it, and by the power brake.
SLOWDOWNS = 0x8 | 0x20 | 0x40 | 0x80


class Nvml:
    """The few NVML calls that name a device and say what it draws; absent without
    the library. What a device does not say is an OSError."""

    def __init__(self):
        import ctypes

        self._c = ctypes
        self._lib = ctypes.CDLL("libnvidia-ml.so.1")
        if self._lib.nvmlInit_v2() != 0:
            raise OSError("nvmlInit failed")

    def _string(self, call, *args, size=96):
        buf = self._c.create_string_buffer(size)
        if getattr(self._lib, call)(*args, buf, size) != 0:
            return ""
        return buf.value.decode("ascii", "replace")

    def driver(self):
        return self._string("nvmlSystemGetDriverVersion")

    def _handle(self, index):
        handle = self._c.c_void_p()
        if self._lib.nvmlDeviceGetHandleByIndex_v2(index, self._c.byref(handle)) != 0:
            raise OSError("NVML has no device %d" % index)
        return handle

    def _number(self, call, index, kind, *args):
        value = kind()
        self._call(call, self._handle(index), *args, self._c.byref(value))
        return value.value

    def _call(self, name, *args):
        call = getattr(self._lib, name, None)
        if call is None:
            raise OSError("this driver's NVML has no %s" % name)
        status = call(*args)
        if status != 0:
            raise OSError("%s failed with status %d" % (name, status))

    def energy(self, index):
        """Millijoules since the driver was loaded; advances every 100 ms or so."""
        return self._number("nvmlDeviceGetTotalEnergyConsumption", index, self._c.c_ulonglong)

    def power(self, index):
        """Milliwatts at this moment, not the mean of a second that other calls give."""
        c = self._c

        class Field(c.Structure):
            _fields_ = [
                ("id", c.c_uint), ("scope", c.c_uint), ("timestamp", c.c_longlong), ("took", c.c_longlong),
                ("kind", c.c_int), ("status", c.c_int), ("value", c.c_uint), ("rest", c.c_uint),
            ]

        field = Field(id=POWER_INSTANT)
        self._call("nvmlDeviceGetFieldValues", self._handle(index), 1, c.byref(field))
        if field.status != 0 or field.kind != UNSIGNED_INT:
            raise OSError("the device does not say its power: status %d, type %d" % (field.status, field.kind))
        return field.value

    def power_limit(self, index):
        """Milliwatts."""
        return self._number("nvmlDeviceGetPowerManagementLimit", index, self._c.c_uint)

    def max_clock(self, index):
        """MHz that the SMs could have, whatever their clock is locked at."""
        return self._number("nvmlDeviceGetMaxClockInfo", index, self._c.c_uint, SM_CLOCK)

    def slowdown(self, index):
        """Whether the driver names a reason for a low clock that is no cap."""
        event = "nvmlDeviceGetCurrentClocksEventReasons"
        older = "nvmlDeviceGetCurrentClocksThrottleReasons"
        call = event if hasattr(self._lib, event) else older
        return self._number(call, index, self._c.c_ulonglong) & SLOWDOWNS != 0

    def device(self, index):
        """(name, uuid) of the device at a PCI bus order index; empty strings
        when there is none."""
        try:
            handle = self._handle(index)
        except OSError:
            return "", ""
        return self._string("nvmlDeviceGetName", handle), self._string("nvmlDeviceGetUUID", handle)


def cpu_name():
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def package_version(package):
    """The installed version of a distribution, or None."""
    # It takes as long as half of the other modules, and many workers ask for no package.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        pass
    try:
        if importlib.util.find_spec(package) is None:
            return None
    except (ImportError, ValueError):
        return None
    return getattr(importlib.import_module(package), "__version__", None)


class PlainDevice:
    """What torch.device is where there is no torch."""

    def __init__(self, kind, index=None):
        self.type, self.index = kind, index

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)

    __repr__ = __str__

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))
