"""torch's defaults, which collectors change for good."""

import contextlib
import sys


class TorchDefaults:
    """torch's default dtype and default device. Collectors set them and leave
    them set, since their own runner has processes for one module each; here the
    next case may be another module's, which expects the initial ones."""

    def __init__(self):
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "get_default_device"):
            self.dtype = self.device = None
            return
        self.dtype = torch.get_default_dtype()
        # No device is not the same as the CPU: that one costs every call a detour.
        device = torch.get_default_device()
        self.device = None if device.type == "cpu" else device

    def set(self):
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "get_default_device"):
            return
        torch.set_default_dtype(self.dtype or torch.float32)
        torch.set_default_device(self.device)

    @classmethod
    @contextlib.contextmanager
    def kept(cls):
        before = cls()
        try:
            yield
        finally:
            before.set()
