"""torch's defaults, which collectors change for good, and random numbers."""

import contextlib
import random
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


@contextlib.contextmanager
def undisturbed(cuda, defaults):
    """Within it, a case finds what it would find alone, and leaves nothing behind for
    the call that it runs in: random numbers, torch's defaults, modes and stream."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    drawn = random.getstate(), numpy.random.get_state() if numpy is not None else None
    with contextlib.ExitStack() as stack:
        stack.callback(random.setstate, drawn[0])
        if drawn[1] is not None:
            stack.callback(numpy.random.set_state, drawn[1])
        if torch is not None and cuda is not None:
            stack.callback(torch.set_rng_state, torch.get_rng_state())
            stack.callback(torch.cuda.set_rng_state, torch.cuda.get_rng_state(cuda.device), cuda.device)
            stack.enter_context(TorchDefaults.kept())
            defaults.set()
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            stack.enter_context(torch.cuda.stream(torch.cuda.default_stream(cuda.device)))
        yield
