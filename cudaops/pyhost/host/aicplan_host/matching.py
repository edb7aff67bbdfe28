"""How a case finds itself in what a collector lists."""

import enum
import inspect

from .errors import HostError


def plain(value):
    """A form in which case parameters of both sides compare equal: enums by
    name, torch dtypes by their short name, sequences as tuples, whole floats as
    integers."""
    if isinstance(value, enum.Enum):
        return plain(value.value) if isinstance(value.value, str) else value.name.lower()
    if isinstance(value, (bool, str, type(None))):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    name = getattr(value, "name", None)  # enums of C++ bindings are no Enum
    if isinstance(name, str):
        return name.lower()
    text = str(value)
    return text[6:] if text.startswith("torch.") else text


def word(value):
    """The key under which a map of a binding lists value."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def mapped(table, value, where):
    if table is None:
        return value
    key = word(plain(value))
    if key not in table:
        raise HostError("%s: the binding's map has no entry for %s (it has %s)" % (where, key, ", ".join(sorted(table))))
    return table[key]


def positional(fn):
    """Names of the parameters that a case fills in, in order. Functions wrapped
    in an exit stack show it first; callers do not pass it."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(fn).parameters.values() if p.kind in kinds]
    return names[1:] if names[:1] == ["exit_stack"] else names
