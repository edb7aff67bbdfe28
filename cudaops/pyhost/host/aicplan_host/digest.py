"""SHA-256. The library behind hashlib takes longer to load than any other module of
this package, so that only data which it reads much faster is worth it."""

try:
    from _sha2 import sha256 as _small  # Python 3.12 and later
except ImportError:
    try:
        from _sha256 import sha256 as _small
    except ImportError:
        from hashlib import sha256 as _small

_MUCH = 1 << 20  # bytes


def sha256(data):
    if len(data) < _MUCH:
        return _small(data)
    import hashlib

    return hashlib.sha256(data)
