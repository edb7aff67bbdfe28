"""Rows: what their values may be."""

import enum
import math

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
    """Rows as they go to the engine; every fault of an op's rows is named here."""
    if isinstance(rows, dict):
        rows = [rows]
    if rows is None:
        raise HostError("%s returned nothing; an op returns a row or a list of rows" % op)
    out = []
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
            if isinstance(latency, str):
                raise HostError("%s returned a row whose latency is the text %r, which is no number" % (op, latency))
            have = ", ".join(sorted(clean)) or "none"
            raise HostError("%s returned a row without a latency (columns: %s)" % (op, have))
        out.append(clean)
    if not out:
        raise HostError("%s returned no rows" % op)
    return out


def number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
