"""What a case takes when the L2 cache is full of other data."""

import math
import statistics

from .targets import CudaTarget

# A longer case has read more than the cache holds, or is not waiting for memory.
LONGEST_MS = 0.2
# To a graph, of a case with what evicts it and of that alone: the launch of a graph
# costs both the same.
CALLS = 8


class Evictor:
    """Reads twice as much as the L2 cache holds, as the weights of a layer do."""

    def __init__(self, cuda):
        self.torch = cuda.torch
        # A collector may measure in inference mode: a sum that was made in it could not
        # be written by a case that is not.
        with self.torch.inference_mode(False):
            self._data = self.torch.zeros(cuda.l2 // 2, dtype=self.torch.float32, device=cuda.device)
            self._sum = self.torch.zeros((), dtype=self.torch.float32, device=cuda.device)

    def __call__(self):
        self.torch.sum(self._data, 0, out=self._sum)


def applies(hot, held):
    """Whether a case of this hot measurement is to be taken cold. One that the power cap
    holds back stays hot: the read would change its clock."""
    return not held and hot["used_cuda_graph"] and hot["latency"] <= LONGEST_MS


def cold(cuda, call, hot, measure):
    """The measurement hot of call, as one whose operands come from memory: what call
    and a read of other data take and draw in turn, less what the read does alone.
    measure(target) measures a CudaTarget, its power too where that is wanted. A row
    says in cache which of both it is of, and in latency_hot what it was when nothing
    came between its executions."""
    evict = cuda.evictor = cuda.evictor or Evictor(cuda)

    def both():
        evict()
        call()

    turns, alone = (_measured(cuda, fn, measure) for fn in (both, evict))
    latency = turns["latency"] - alone["latency"]
    if not latency > 0:
        return type(hot)(hot, cache="hot")
    spread = [m["rel_stdev"] * m["latency"] for m in (turns, alone) if m["rel_stdev"] is not None]
    got = type(hot)(
        hot,
        latency=latency,
        latency_hot=hot["latency"],
        cache="cold",
        samples=turns["samples"],
        rel_stdev=math.hypot(*spread) / latency if len(spread) == 2 else None,
        # Noise of the read may leave nothing, which is no time.
        p10=turns["p10"] - alone["latency"] if turns["p10"] > alone["latency"] else None,
        p90=turns["p90"] - alone["latency"],
        passes=turns["passes"],
        pass_spread=None if turns["pass_spread"] is None else turns["pass_spread"] * turns["latency"] / latency,
        executions=hot["executions"] + turns["executions"],
        block_ms=turns["block_ms"],
    )
    clocks = [m["sm_clock_mhz"] for m in (turns, alone) if "sm_clock_mhz" in m]
    if len(clocks) == 2:
        got["sm_clock_mhz"] = round(statistics.fmean(clocks), 1)
    got.update(_power(turns, alone))
    return got


def _power(turns, alone):
    """The columns of power of what turns does beside alone; none where that was not
    measured, or is lost in the noise of the read."""
    if "energy" not in turns or "energy" not in alone:
        return {}
    energy, took = turns["energy"] - alone["energy"], turns["power_latency"] - alone["power_latency"]
    if not (energy > 0 and took > 0):
        return {}
    beside = {name: turns[name] for name in ("power_limit", "power_method", "power_seconds")}
    return dict(beside, power=energy * 1e3 / took, energy=energy, power_latency=took)


def _measured(cuda, fn, measure):
    target = CudaTarget(cuda, fn, CALLS, "require")
    try:
        return measure(target)
    finally:
        target.close()
