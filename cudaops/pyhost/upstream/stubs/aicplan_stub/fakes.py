"""What is known about the frameworks and the GPU."""

import os
import types

from .unknown import Unknown

DTYPES = {
    "float64": 8, "double": 8, "float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2, "int64": 8, "long": 8, "int32": 4,
    "int": 4, "int16": 2, "int8": 1, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1, "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
}
SAME = {"double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32"}


class dtype:  # noqa: N801 (torch's spelling)
    def __init__(self, name, itemsize):
        self.itemsize, self._name = itemsize, name
        self.is_floating_point = "float" in name

    def __repr__(self):
        return "torch." + self._name


dtype.__module__ = "torch"


class device:  # noqa: N801
    def __init__(self, kind="cuda", index=None):
        if isinstance(kind, int):
            kind, index = "cuda", kind
        text = str(kind)
        self.type, _, number = text.partition(":")
        self.index = int(number) if number else index

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)

    def __repr__(self):
        return "device(type=%r, index=%r)" % (self.type, self.index)

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))

    def __enter__(self):
        return self

    def __exit__(self, *what):
        return False


device.__module__ = "torch"


class OutOfMemoryError(RuntimeError):
    pass


class Tensor:
    pass


class Event:
    """A moment on a stream. No kernel runs, so any two are a millisecond apart."""

    def __init__(self, *args, **kwargs):
        pass

    def record(self, *args):
        pass

    synchronize = wait = record

    def query(self):
        return True

    def elapsed_time(self, other):
        return 1.0


def known(settings):
    """Values by their full name; the versions of packages too."""
    sm = tuple(settings["sm"])
    types_of = {}
    for name, size in DTYPES.items():
        if name not in SAME:
            types_of[name] = dtype(name, size)
    for name, same in SAME.items():
        types_of[name] = types_of[same]
    state = {"dtype": types_of["float32"], "device": device("cpu")}
    gb = 1 << 30
    properties = types.SimpleNamespace(
        name="NVIDIA H200", major=sm[0], minor=sm[1], total_memory=140 * gb, multi_processor_count=132, L2_cache_size=60 << 20,
        warp_size=32, shared_memory_per_multiprocessor=233472, uuid="",
    )
    out = {"torch." + name: value for name, value in types_of.items()}
    out.update({
        "torch.dtype": dtype, "torch.device": device, "torch.OutOfMemoryError": OutOfMemoryError, "torch.cuda.OutOfMemoryError": OutOfMemoryError,
        "torch.cuda.Event": Event, "torch.Event": Event,
        "torch.AcceleratorError": type("AcceleratorError", (RuntimeError,), {}),
        "torch.get_default_dtype": lambda: state["dtype"],
        "torch.set_default_dtype": lambda d: state.update(dtype=d),
        "torch.get_default_device": lambda: state["device"],
        "torch.set_default_device": lambda d: state.update(device=device(d) if d is not None else device("cpu")),
        "torch.__version__": "2.11.0", "torch.version.cuda": "13.0", "torch.version.hip": None,
        "torch.finfo": lambda d=None: types.SimpleNamespace(max=448.0, min=-448.0, eps=1e-3, tiny=1e-6, bits=8 * getattr(d, "itemsize", 4)),
        "torch.iinfo": lambda d=None: types.SimpleNamespace(max=(1 << 31) - 1, min=-(1 << 31), bits=32),
        "torch.cuda.is_available": lambda: True, "torch.cuda.device_count": lambda: 1, "torch.cuda.current_device": lambda: 0,
        "torch.cuda.get_device_capability": lambda *a: sm, "torch.cuda.get_device_name": lambda *a: "NVIDIA H200",
        "torch.cuda.get_device_properties": lambda *a: properties, "torch.cuda.mem_get_info": lambda *a: (138 * gb, 140 * gb),
        "torch.cuda.memory_allocated": lambda *a: 0, "torch.cuda.memory_reserved": lambda *a: 0, "torch.cuda.is_initialized": lambda: True,
        "torch.distributed.is_initialized": lambda: True, "torch.distributed.is_available": lambda: True,
    })
    for name, variable in (("mpi_world_size", "OMPI_COMM_WORLD_SIZE"), ("mpi_rank", "OMPI_COMM_WORLD_RANK")):
        if variable in os.environ:
            out["tensorrt_llm." + name] = lambda number=int(os.environ[variable]): number
    for package, version in settings["versions"].items():
        out[package.replace("-", "_") + ".__version__"] = version
    out.update(settings.get("known", {}))
    return out


def unknown(path):
    return Unknown(path, True)
