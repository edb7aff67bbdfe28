"""Latencies that are not known yet: a collector goes on without them, and its rows get
them when the batch has been measured."""

import contextlib
import operator
import os
import sys

from .errors import AtOnce
from .joining import Form, filled

_HERE = os.path.dirname(os.path.dirname(sys._getframe().f_code.co_filename)) + os.sep


class Later(float):
    """The latency of prepared cases, in ms. Its value is an estimate. It remembers through sums
    and quotients which measurements it is made of, and what was decided by its value."""

    __slots__ = ("branches", "terms")

    def __new__(cls, value, terms, branches):
        """terms are factors by the handle of a prepared case; None is the handle of a
        constant. branches is a list that the comparisons of all numbers go to."""
        self = float.__new__(cls, value)
        self.terms, self.branches = terms, branches
        return self

    def _plus(self, other, sign):
        if not isinstance(other, (int, float)):
            return NotImplemented
        terms = dict(self.terms)
        for handle, factor in _terms(other).items():
            terms[handle] = terms.get(handle, 0.0) + sign * factor
        return Later(float(self) + sign * float(other), terms, self.branches)

    def _times(self, factor):
        if not isinstance(factor, (int, float)):
            return NotImplemented
        if isinstance(factor, Later):
            return self._estimate(float(self) * float(factor))
        return Later(float(self) * factor, {h: f * factor for h, f in self.terms.items()}, self.branches)

    def __add__(self, other):
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other):
        return self._plus(other, -1)

    def __rsub__(self, other):
        return (-self)._plus(other, 1)

    def __mul__(self, other):
        return self._times(other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self._estimate(float(self) / float(other)) if isinstance(other, Later) else self._times(1 / other)

    def __rtruediv__(self, other):
        return self._estimate(other / float(self))

    def __pow__(self, other, modulus=None):
        return self._estimate(float(self) ** other)

    def __floordiv__(self, other):
        return self._estimate(float(self) // other)

    def _estimate(self, value):
        """A number that cannot be worked out later: the call has gone a wrong way with it."""
        self.branches.append(None)
        return value

    def __neg__(self):
        return self._times(-1)

    def __abs__(self):
        return -self if self < 0 else self

    def __round__(self, digits=None):
        return self  # rows have the number as it is

    def _decide(self, compare, other):
        outcome = compare(float(self), float(other) if isinstance(other, Later) else other)
        if isinstance(other, (int, float)):
            self.branches.append((compare, self.terms, _terms(other), outcome))
        return outcome

    def __lt__(self, other):
        return self._decide(operator.lt, other)

    def __le__(self, other):
        return self._decide(operator.le, other)

    def __gt__(self, other):
        return self._decide(operator.gt, other)

    def __ge__(self, other):
        return self._decide(operator.ge, other)

    __hash__ = float.__hash__


def _terms(number):
    return number.terms if isinstance(number, Later) else {None: float(number)} if number else {}


def _versions(kept):
    """The tensors among values, and in their lists, tuples and dicts, with the number of their changes.
    Tensors of inference mode have no such number."""
    torch, found = sys.modules["torch"], []
    for value in kept:
        for v in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(v, torch.Tensor):
                with contextlib.suppress(RuntimeError):
                    found.append((v, v._version))
    return found


def _changed(versions):
    return any(tensor._version != version for tensor, version in versions)


# The least difference in ms of the estimates of a call. Collectors write up to six decimals, by which the measurement
# of a number is found.
_APART = 2e-6


class Deferral:
    """What one call of a collector has prepared and not waited for."""

    def __init__(self, offers, of):
        """of is the code of the function that calls the collector."""
        self._offers, self._of, self._branches, self._handles = offers, of, [], []
        self._estimates = []  # of the latencies, in ms
        self.measured = {}  # columns by handle
        self._columns = {}  # those that are known before, by handle
        self._versions = {}  # of tensors that were kept, by handle
        self._changed = False  # tensors of a case were changed before it was measured
        self.error = None  # why one of the handles has none
        self.seconds = 0.0  # that the visits took
        self.used = False  # something was offered

    def locals(self):
        """What the variables of the collector's functions refer to now, and what is in
        their lists and dicts: a captured graph reads it, whatever becomes of them."""
        kept, frame = [], sys._getframe(1)
        while frame is not None and frame.f_code is not self._of:
            if not frame.f_code.co_filename.startswith(_HERE):
                kept += [v.copy() if type(v) in (list, dict) else v for v in frame.f_locals.values()]
            frame = frame.f_back
        return kept

    def offer(self, target, facts, columns, kept):
        """Offers a prepared target. Returns what a Measurement has, as far as it is known.
        Its result gets the columns. kept is what locals returned."""
        handle = self._offers.offer(target, dict(facts, later=True))
        estimate = facts["seconds"] * 1e3
        while any(abs(estimate - other) < _APART for other in self._estimates):
            estimate += _APART
        self._estimates.append(estimate)
        self._columns[handle], self._versions[handle] = columns, _versions(kept)
        self._handles.append(handle)
        self.used = True
        return {
            "handle": handle, "latency": Later(estimate, {handle: 1.0}, self._branches), "executions": facts["runs"],
            "used_cuda_graph": True,
        }

    def room(self):
        """Returns when the call may prepare one more. Raises AtOnce if it has changed what a graph reads that is not
        measured yet."""
        if any(_changed(versions) for versions in self._versions.values()):
            raise AtOnce
        if self._handles:
            self._offers.go()

    def complete(self):
        """Takes the results that are there. Returns whether they are all."""
        for handle in [h for h in self._handles if self._offers.ended(h)]:
            self._handles.remove(handle)
            self._changed = _changed(self._versions.pop(handle)) or self._changed
            try:
                self.measured[handle] = dict(self._offers.result(handle), **self._columns.pop(handle))
                self.seconds += self.measured[handle].pop("spent", 0.0)
            except Exception as err:
                self.error = self.error or err
        return not self._handles

    @property
    def doubtful(self):
        """Whether an error of the call may come from an estimate, or rows before it from changed tensors."""
        return bool(self._branches) or self._changed or any(_changed(versions) for versions in self._versions.values())

    def mistaken(self):
        """Whether the call has taken another way than it would have with the measured numbers, or
        has changed what a graph reads before the graph was measured."""
        if self._changed:
            return True
        for branch in self._branches:
            if branch is None:
                return True
            compare, a, b, outcome = branch
            if compare(Form(a).value(self.measured), Form(b).value(self.measured)) != outcome:
                return True
        return False


class Deferred:
    """The rows of a call, some of which wait for their latency."""

    def __init__(self, deferral, logged, finish):
        """finish makes rows of the logged ones, as the plan knows them."""
        self.deferral, self._logged, self._finish = deferral, logged, finish

    @property
    def traceable(self):
        """Whether it is known of every row which measurements it is made of."""
        return all(row["latency"].terms is not None for _, row in self._logged if isinstance(row.get("latency"), Form))

    def rows(self):
        """The rows whose measurements are there."""
        measured = self.deferral.measured
        return self._finish([(name, filled(row, measured)) for name, row in self._logged if _ready(row, measured)])


def _ready(row, measured):
    return not isinstance(row.get("latency"), Form) or row["latency"].ready(measured)
