"""Rows: what their values may be."""

import contextlib
import enum
import math
import re

from .errors import HostError


def scalar(name, value):
    """value as a JSON scalar; refuses what has no faithful form."""
    if isinstance(value, enum.Enum):
        value = value.value if isinstance(value.value, (str, int, float)) else value.name
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        if value.bit_length() > 64:  # Python refuses to write some of them at all
            raise HostError("column %s holds an integer of %d bits, too large for 64; return it as a float or as text" % (name, value.bit_length()))
        return int(value)
    if isinstance(value, float):
        value = float(value)
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", ()) in ((), (1,)):
        return scalar(name, item())
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value).partition(".")[2]
    raise HostError("column %r holds a %s; rows hold numbers, strings and booleans" % (name, type(value).__name__))


# The columns of a row that are measured, of those that collectors write.
METRICS = ("latency", "power", "power_limit")


def clean_rows(rows, op):
    """Rows as they go to the engine, with every fault named that is about all of
    them. Of several rows the engine judges each latency: the others stay good."""
    if isinstance(rows, dict):
        rows = [rows]
    if rows is None:
        raise HostError("%s returned nothing; an op returns a row or a list of rows" % op)
    out, wrong, right = [], None, 0
    for row in rows:
        if not isinstance(row, dict):
            raise HostError("%s returned a %s; a row is a dict" % (op, type(row).__name__))
        clean = {}
        for name, value in row.items():
            if not isinstance(name, str):
                raise HostError("%s returned a row with the column name %r; names are strings" % (op, name))
            clean[name] = scalar(name, value)
        latency = clean.get("latency")
        if (isinstance(latency, bool) or not isinstance(latency, (int, float))) and latency not in ("NaN", "Infinity", "-Infinity"):
            if latency is not None:
                wrong = wrong or "%s returned a row whose latency is %r, which is no number" % (op, latency)
            else:
                wrong = wrong or "%s returned a row without a latency (columns: %s)" % (op, ", ".join(sorted(clean)) or "none")
        else:
            right += 1
        out.append(clean)
    if wrong and not right:
        raise HostError(wrong)
    if not out:
        raise HostError("%s returned no rows" % op)
    return out


# Numbers as the engine's reader of perf files takes them. Python's int() and
# float() take more: 007 is 7 to them, and 1_0 is 10.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_REAL = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE)
_FLAGS = {"true": True, "True": True, "false": False, "False": False}


def _whole(text):
    if not _WHOLE.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError(text)
    return int(text)


def _real(text):
    if _SPECIAL.fullmatch(text):
        return float(text)
    value = float(text) if _REAL.fullmatch(text) else math.inf
    if math.isinf(value):
        raise ValueError(text)
    return value


def number(text):
    """The number that text is in a perf file, else the text."""
    for kind in (_whole, _real):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def column(texts):
    """The values of a column of a perf file: of the first type that takes all of
    them, whole numbers, numbers, booleans, text. An empty field is null."""
    for kind in (_whole, _real, _FLAGS.__getitem__):
        with contextlib.suppress(ValueError, KeyError):
            return [kind(t) if t else None for t in texts]
    return [t or None for t in texts]
