"""Values for what a collector allocates and never fills."""

import contextlib
import functools
import os
import sys

# In the folder of a case's rows, of a process that left memory as it is.
UNFILLED = "unfilled"
# The ways to ask torch for memory as it is: of the module, and of a tensor.
_FUNCTIONS = ("empty", "empty_like", "empty_strided")
_METHODS = ("new_empty", "new_empty_strided")

# How many numbers a processor draws for one allocation; the others repeat them. Six
# weights of 25 million numbers took two cores 3.9 s to draw, and 0.4 to 0.7 s so.
_DRAWN = 1048573


class Filling:
    """Fills memory that a hosted collector asks torch for and leaves as it is with
    seeded normals of mean 0 and deviation 1, while the collector prepares a case.

    Some collectors leave the weights of a product uninitialised. What is there then
    is zeros, or what the case before left; how much power a product draws, and so
    the clock that the cap leaves it, depends on its operands. Only real numbers of
    16, 32 and 64 bits are filled: what bytes mean in narrower ones (fp8, packed
    weights, indices) is the collector's to know. Nothing is filled while a kernel
    is timed or captured, nothing in code that torch compiles, and nothing that native
    code allocates."""

    def __init__(self, bench):
        self._bench = bench  # whose seed is the case's
        self._generators = {}
        self._on = self._installed = False
        self._wrapped = {}  # by function: compiled code is for the functions that it was compiled with

    @contextlib.contextmanager
    def preparing(self):
        """Within it, allocations are filled; each case draws the same values."""
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "Generator"):
            yield
            return
        if self._installed:  # a case in the call of another one
            outer = self._generators, self._on
            self._generators, self._on = {}, True
            try:
                yield
            finally:
                self._generators, self._on = outer
            return
        # torch notes at the first use of a default device which functions allocate, and
        # has to find its own: those that are set below it would not know again.
        with contextlib.suppress(AttributeError, TypeError), torch.device("cpu"):
            torch.empty(0)
        kept = []
        for where, names in ((torch, _FUNCTIONS), (torch.Tensor, _METHODS)):
            for name in names:
                if hasattr(where, name):
                    # Not getattr alone: what a class inherits is not its own to set back.
                    kept.append((where, name, vars(where).get(name)))
                    allocate = getattr(where, name)
                    if allocate not in self._wrapped:
                        self._wrapped[allocate] = self._filled(torch, allocate)
                    setattr(where, name, self._wrapped[allocate])
        self._generators, self._on, self._installed = {}, True, True
        try:
            yield
        finally:
            self._on = self._installed = False
            for where, name, own in kept:
                if own is None:
                    delattr(where, name)
                else:
                    setattr(where, name, own)

    @contextlib.contextmanager
    def paused(self):
        """Within it, memory stays as it is: a kernel is timed."""
        before, self._on = self._on, False
        try:
            yield
        finally:
            self._on = before

    def _filled(self, torch, allocate):
        compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
        tracing = getattr(getattr(torch, "jit", None), "is_tracing", lambda: False)

        @functools.wraps(allocate)
        def filled(*args, **keywords):
            got = allocate(*args, **keywords)
            if not compiling() and self._on and not tracing():
                self._fill(torch, got)
            return got

        # torch.jit.script compiles what is not in its table, and cannot compile this.
        with contextlib.suppress(AttributeError):
            table = torch.jit._builtins
            name = table._find_builtin(allocate)
            if name is not None:
                table._register_builtin(filled, name)
        return filled

    def _fill(self, torch, tensor):
        if tensor.dtype not in (torch.bfloat16, torch.float16, torch.float32, torch.float64) or tensor.device.type == "meta":
            return
        if type(tensor).__name__ == "FakeTensor":  # of torch.compile: it has no memory
            return
        if tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return
        place = str(tensor.device)
        if place not in self._generators:
            self._generators[place] = torch.Generator(device=tensor.device)
            self._generators[place].manual_seed(self._bench.seed)
        # What torch refuses to fill stays as it is: sparse tensors, and those whose
        # elements share memory.
        with torch.no_grad(), contextlib.suppress(RuntimeError):
            _draw(torch, tensor.detach(), self._generators[place])


def _draw(torch, tensor, generator):
    # A subclass may know no such methods: what is below it does.
    base, size = torch.Tensor, tensor.numel()
    if tensor.device.type != "cpu" or size <= _DRAWN or not tensor.is_contiguous():
        base.normal_(tensor, generator=generator)
        return
    flat = base.view(tensor, -1)
    base.normal_(base.narrow(flat, 0, 0, _DRAWN), generator=generator)
    done = _DRAWN
    while done < size:
        more = min(done, size - done)
        base.copy_(base.narrow(flat, 0, done, more), base.narrow(flat, 0, 0, more))
        done += more


class Unfilled:
    """Leaves memory uninitialised in a process that a collector has started, and marks
    the case's folder when something is timed there. The process does not know when a
    case begins, so buffers of the framework would be filled, too."""

    def __init__(self, folder):
        self._folder = folder

    @contextlib.contextmanager
    def paused(self):
        with contextlib.suppress(OSError):
            open(os.path.join(self._folder, UNFILLED), "w").close()
        yield


def left_unfilled(folder):
    """Whether a process of the case with this folder left its mark."""
    return os.path.exists(os.path.join(folder, UNFILLED))
