"""What the worker runs on: the device, the processor, installed packages."""

import importlib
import importlib.util
import platform


class Nvml:
    """The few NVML calls that name a device; absent without the library."""

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
