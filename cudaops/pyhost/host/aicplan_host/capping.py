"""What the power cap of a device does to a case, and when it has done so.

An H200 has two loops that hold its cap. One acts within 40 ms, where work draws far
more than the limit. The other limits the mean power of a second: 0.85 s after heavy
work began it cuts the clock for 0.15 s, and the clock after that is the one that
stays. It holds more than the first one does: whatever draws more than the limit.
"""

import functools
import time
from statistics import fmean

# The mean power is that of a second. Work is on its own in it, with something to
# spare, when so much of the last window was like it.
WINDOW_SECONDS = 1.3
FILLED_SECONDS = 1.2
# A case runs so long before it counts, and is looked at so long.
SOAK_SECONDS = 0.2
LOOK_SECONDS = 0.1
# The first loop acts on a case whose clock is below this share of the idle one. Work
# that draws little is at 0.90 and more, rows that are held from the beginning at 0.88
# and less. One that draws what the limit leaves will be held by the second loop: a
# product that drew 0.93 of it kept its clock, one that drew 0.99 did not.
CAPPED_SHARE = 0.89
LIMIT_SHARE = 0.97
# Where the clock of an idle device is below this share of the highest that it has,
# somebody has locked it. What the first loop leaves heavy work may then be no lower,
# and a clock says nothing of the cap.
LOCKED_SHARE = 0.93
# Nothing keeps the clock at which it draws more of the limit: the second loop has
# still to act. Work that it holds draws 0.97 to 0.99 of the limit.
OVER_SHARE = 1.02
# Two looks at one clock differ by no more: between tenths of a second in which nothing
# but the control of the clock goes on it was 1.2 % (median) and 3.7 % (p90).
STEADY = 0.03
# A case is timed for so long, and for a period of the second loop where its clock moves
# by more than CALM meanwhile: behind a cut that loop swings by 5 % for seconds. Over 0.2 s
# of eight products without end, one of them behind a cut, rows are up to 5.3 % off their
# mean, over a second 0.5 %.
TAKE_SECONDS = 0.2
PERIOD_SECONDS = 1.0
CALM = 0.015
TAKES = 5


class CappedWork:
    """When work ran lately that the power cap holds. Times are those of the host's
    clock and only grow."""

    def __init__(self):
        self._ran = []

    def add(self, begin, end):
        self._ran = [*self._since(end - WINDOW_SECONDS), (begin, end)]

    def fills(self, now):
        """Whether such work has filled the window before now."""
        start = now - WINDOW_SECONDS
        return sum(end - max(begin, start) for begin, end in self._since(start)) >= FILLED_SECONDS

    def _since(self, start):
        return [(begin, end) for begin, end in self._ran if end > start]


class Board:
    """What the board of a device draws, where its driver says that."""

    def __init__(self, nvml, index):
        self._nvml, self._index, self._limit, self.max_clock = nvml, index, None, 0
        if nvml is not None:
            self._limit = self._read(nvml.power_limit)
            self.max_clock = self._read(nvml.max_clock) or 0  # MHz; 0 where nobody knows

    @property
    def says(self):
        return bool(self._limit)

    def share(self):
        """What it draws, as a share of its power limit; 0 where nobody knows."""
        if not self._limit:
            return 0.0
        drawn = self._read(self._nvml.power)
        if drawn is None:
            self._limit = None  # MIG devices and older drivers do not say it later either
            return 0.0
        return drawn / self._limit

    def slowdown(self):
        """Whether something but its caps slows it down; None where nobody knows."""
        return None if self._nvml is None else self._read(self._nvml.slowdown)

    def _read(self, call):
        try:
            return call(self._index)
        except OSError:
            return None


class PowerCap:
    """Follows which work of a device its power cap holds."""

    def __init__(self, ready, board):
        self._ready, self.board, self._work = ready, board, CappedWork()
        self._share = 0.0  # of the power limit, that the last work drew

    @property
    def blind(self):
        """Whether nothing says what the cap holds."""
        return not self._ready.level and not self.board.says

    @property
    def locked(self):
        """Whether no clock says what the cap holds."""
        return 0 < self._ready.level < LOCKED_SHARE * self.board.max_clock

    def watch(self, target, work):
        """Runs work of a case, and notes when that was if the cap holds it. Returns
        whether it does, and the clock."""
        begin = time.perf_counter()
        _, mhz = target.clock(work)
        capped = self.holds(mhz)
        if capped:
            self.ran(begin)
        return capped, mhz

    def holds(self, mhz):
        """Whether the cap holds work that ran until now, at this clock; 0 for an
        unknown one."""
        self._share = self.board.share()
        return 0 < mhz < CAPPED_SHARE * self._ready.level or self._share >= LIMIT_SHARE

    def ran(self, begin):
        """Notes that held work ran since then."""
        self._work.add(begin, time.perf_counter())

    def keep(self, target, run, timed, samples):
        """Runs a case until it keeps its clock, and times it there: again where the
        clock moved meanwhile, or away from what it was just before, or where only the
        timing showed that the cap holds the case. timed(seconds) fills samples. Returns
        whether the cap holds the case, and the clock."""
        before, settled = self._soak(target, run, False)
        take, left = TAKE_SECONDS, TAKES
        while left > 0:
            left -= 1
            capped, mhz = self.watch(target, functools.partial(timed, take))
            if capped and not settled:
                before, settled = self._soak(target, run, True)
                left = max(left, 1)
                continue
            half = len(samples) // 2
            whole = take == PERIOD_SECONDS
            allowed = CALM if capped and not whole else STEADY
            # A clock from before says nothing of the mean of a period.
            if (whole or _steady(before, mhz, allowed)) and (not half or _steady(fmean(samples[:half]), fmean(samples[half:]), allowed)):
                break
            before = mhz
            if capped:
                take = PERIOD_SECONDS
        return capped, mhz

    def _soak(self, target, run, held):
        """Runs a case for SOAK_SECONDS, and one that the mean of a second holds, or
        will, until such work has filled that second; held says so of a case before
        it runs. Returns the clock at the end, and whether that second was filled."""
        began, full, before = time.perf_counter(), False, 0.0
        while True:
            capped, mhz = self.watch(target, lambda: run(LOOK_SECONDS))
            # In a cut such work draws less than the limit.
            full = full or self._share >= LIMIT_SHARE
            ran, steady, before = time.perf_counter() - began, _steady(before, mhz, STEADY), mhz
            if ran < SOAK_SECONDS:
                continue
            # After a whole window nothing in it is of another case.
            filled = steady and self._share <= OVER_SHARE and self._work.fills(began + ran)
            if ran >= WINDOW_SECONDS or filled:
                return mhz, True
            # Where neither clock nor power can say it, any case may be held.
            unseen = self.locked and not self.board.says
            if not (held or capped or full or unseen):
                return mhz, False


def _steady(before, now, allowed):
    return abs(now - before) <= allowed * before or not before
