"""Which measurement a logged latency comes from."""

import json
import math

MAX_CALLS = 64  # that a collector is taken to make in one measured call
OF_A_CALL = ("p10", "p90", "latency_hot", "power_latency", "energy")
EXACT = 1e-12  # relative: a quotient that was taken in another order


def decimals(value):
    """The digits behind the point with which a latency was written; None for a
    number that was not rounded for writing."""
    text = value.strip().lower() if isinstance(value, str) else repr(value)
    digits, _, exponent = text.partition("e")
    places = max(0, len(digits.partition(".")[2]) - int(exponent or 0))
    return places if isinstance(value, str) or 3 <= places <= 9 else None


def is_rounding(logged, places, exact):
    """Whether logged is exact, or exact written with so many places."""
    if math.isclose(logged, exact, rel_tol=EXACT):
        return True
    return places is not None and abs(logged - exact) <= 0.5000001 * 10.0**-places


class Form:
    """The latency of a row as a sum of factors times the latencies of prepared cases, by
    their handles; the handle None stands for 1. terms is None if it is not known."""

    def __init__(self, terms):
        self.terms = terms

    def ready(self, measured):
        """Whether all its measurements are among those by handle."""
        return self.terms is not None and all(handle is None or handle in measured for handle in self.terms)

    def value(self, measured):
        return sum(factor * (measured[handle]["latency"] if handle is not None else 1.0) for handle, factor in self.terms.items())

    def row(self, measured):
        """(latency, statistics)."""
        of = [(measured[handle], factor) for handle, factor in self.terms.items() if handle is not None]
        if len(of) != 1 or None in self.terms:
            return self.value(measured), common([got for got, _ in of], self.value(measured))
        got, factor = of[0]
        calls = 1 / factor
        return self.value(measured), statistics_of(got, round(calls) if abs(calls - round(calls)) < 1e-9 else calls)


def filled(row, measured):
    """The row with its latency and statistics if it waits for measurements, which are
    given by handle."""
    if not isinstance(row.get("latency"), Form):
        return row
    latency, statistics = row["latency"].row(measured)
    return dict(statistics, **dict(row, latency=latency))


class Join:
    """Joins logged rows with measurements, by call: what is logged comes from
    what was measured since the rows before it.

    A latency that is a measured one, or its rounding, or either divided by the
    calls that a collector makes in one, gets that measurement's exact number and
    statistics. One that is computed from a single measurement in another way
    gets its statistics, scaled; one that is computed from several, such as a
    difference, what they have in common.
    """

    def __init__(self):
        self._batch = []  # what was measured since the rows before
        self._used = set()  # places in it
        self._logged = False

    def measured(self, got):
        if self._logged:
            self._batch, self._used, self._logged = [], set(), False
        self._batch.append(dict(got, latency=float(got["latency"])))

    def start(self):
        """Forgets what the case before has measured."""
        self._batch, self._used, self._logged = [], set(), False

    def logged(self):
        """Says that rows were logged: what is measured next belongs to others."""
        self._logged = True

    def of(self, latency, written):
        """(latency, statistics) of a row whose latency was written so. The latency is a Form
        if it comes from a measurement that is not there yet."""
        if hasattr(written, "terms"):
            return Form(written.terms), {}
        places = decimals(written) if isinstance(written, (str, float)) else None
        order = [i for i in reversed(range(len(self._batch))) if i not in self._used]
        order += [i for i in reversed(range(len(self._batch))) if i in self._used]
        estimated = any("handle" in got for got in self._batch)
        for counts in ((1,), range(2, MAX_CALLS + 1)):
            found = {}
            for i in order:
                exact = self._batch[i]["latency"]
                calls = [n for n in counts if is_rounding(latency, places, exact / n)]
                if calls:
                    found[i] = calls
            if estimated and len(found) > 1:
                return Form(None), {}  # equal estimates are of different latencies
            for i, calls in found.items():
                self._used.add(i)
                # A short latency can be the rounding of several quotients.
                exact = self._batch[i]["latency"] / calls[0] if len(calls) == 1 else latency
                return self._found(i, len(calls) == 1 and calls[0], exact)
        if estimated:
            return Form(None), {}
        fresh = [self._batch[i] for i in order if i not in self._used]
        if len(fresh) == 1 and fresh[0]["latency"] > 0 and latency > 0:
            return latency, statistics_of(fresh[0], fresh[0]["latency"] / latency)
        if fresh:
            return latency, common(fresh, latency)
        return latency, {}


    def _found(self, i, calls, exact):
        got = self._batch[i]
        if "handle" not in got:
            return exact, statistics_of(got, calls)
        return Form({got["handle"]: 1 / calls} if calls else None), {}


def statistics_of(got, calls):
    """The statistics of one of the calls of a measured one; without those of a call
    when it is not known how many those are."""
    out = {k: v for k, v in got.items() if k != "latency"}
    for name in OF_A_CALL:
        if out.get(name) is not None:
            if calls:
                out[name] /= calls
            else:
                del out[name]
    if out.get("executions") is not None and isinstance(calls, int) and calls > 1:
        out["executions"] *= calls
    return out


def common(measured, latency):
    """What holds for a number that was computed from several measurements: the
    flags of all, the fewest samples, the deviation of a sum or a difference."""
    out = {}
    flags = [got.get("used_cuda_graph") for got in measured]
    if None not in flags:
        out["used_cuda_graph"] = all(flags)
    eager = [got for got in measured if not got.get("used_cuda_graph")]
    for name, of in (("throttled", measured), ("launch_bound", eager)):
        found = [got.get(name) for got in of]
        if found and None not in found or True in found:
            out[name] = True in found
    protocols = {got.get("protocol") for got in measured}
    if len(protocols) == 1 and None not in protocols:
        out["protocol"] = protocols.pop()
    for name, of in (("samples", min), ("executions", sum)):
        if all(got.get(name) is not None for got in measured):
            out[name] = of(got[name] for got in measured)
    clocks = [got["sm_clock_mhz"] for got in measured if got.get("sm_clock_mhz") is not None]
    if len(clocks) == len(measured):
        out["sm_clock_mhz"] = min(clocks)
    names = [json.loads(got["kernels"]) for got in measured if got.get("kernels")]
    if names and len(names) == len(measured):
        counts = {name: sum(of.get(name, 0) for of in names) for of in names for name in of}
        out["kernels"] = json.dumps(dict(sorted(counts.items())), separators=(",", ":"))
    if latency > 0 and all(got.get("rel_stdev") is not None for got in measured):
        out["rel_stdev"] = math.hypot(*(got["rel_stdev"] * got["latency"] for got in measured)) / latency
    return out
