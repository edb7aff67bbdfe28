"""What a plan binds an op to."""

from .errors import HostError


def environment_of(op):
    return {k: str(v) for k, v in op.binding.get("env", {}).items()}


def known_words(op, binding, known):
    """Refuses words of a binding that nothing would read."""
    for word in sorted(set(binding) - known):
        raise HostError("op %s: a binding has no %r; it has %s" % (op, word, ", ".join(sorted(known))))
