"""A stand-in for the framework: what the collectors of the test checkout import
from it, enums of a C++ binding among it."""

import types

__version__ = "1.3.0rc20"


class _BoundEnum:
    """Has a name like an enum and is none, as enums of C++ bindings are."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "DataType." + self.name


bindings = types.SimpleNamespace(DataType=types.SimpleNamespace(BF16=_BoundEnum("BF16"), FP8=_BoundEnum("FP8")))
print("[TensorRT-LLM] stand-in starting up")
