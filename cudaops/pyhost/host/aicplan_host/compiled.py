"""This package's own code, compiled once for each version of Python.

Python keeps no bytecode of modules in a zip file, and compiling them took half of
the time in which a worker starts. The code is kept in a file beside the zip file,
or in the folder that AICPLAN_HOST_CODE names, and is not written where
PYTHONDONTWRITEBYTECODE is set. It is used for the same zip file and the same
version only. Python 3.9 reads zip files in a way of its own and compiles every
time."""

import contextlib
import importlib.util
import marshal
import os
import sys
import types
import zipimport

_kept = {}  # code by the name of its module
_new = []  # names that are not in the file yet
_file = []  # its path, and what it begins with


class Compiled(zipimport.zipimporter):
    """Takes a module's code from the file where that has it."""

    def get_code(self, fullname):
        if fullname not in _kept:
            name = os.path.relpath(self.get_filename(fullname), os.path.dirname(self.archive))
            _kept[fullname] = _named(super().get_code(fullname), name)
            _new.append(fullname)
        return _kept[fullname]

    def get_filename(self, fullname):  # otherwise by compiling the module
        return os.path.join(self.archive, *fullname.split(".")) + ".py"


def install(package, loader):
    """Has the modules of package read by Compiled where they are in a zip file."""
    tag = sys.implementation.cache_tag
    if tag is None or not isinstance(loader, zipimport.zipimporter):
        return
    with contextlib.suppress(OSError):
        with open(loader.archive, "rb") as f:
            source = f.read()
        name = "%s.%s%s.code" % (os.path.basename(loader.archive), tag, "-%d" % sys.flags.optimize if sys.flags.optimize else "")
        folder = os.environ.get("AICPLAN_HOST_CODE") or os.path.dirname(os.path.abspath(loader.archive))
        _file[:] = [os.path.join(folder, name), importlib.util.MAGIC_NUMBER + importlib.util.source_hash(source)]
        sys.path_importer_cache[package] = Compiled(package)
        _kept.update(_read(*_file))


def keep():
    """Writes what has been compiled, if anything has. A file that cannot be written
    is none: the next start compiles again."""
    if not _new or sys.dont_write_bytecode:
        return
    path, mark = _file
    code = marshal.dumps(_kept)
    half = "%s.%d.tmp" % (path, os.getpid())
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        f = open(half, "xb")  # a process of the same id on another host writes the same bytes
        try:
            with f:
                f.write(mark + importlib.util.source_hash(code) + code)
            os.replace(half, path)
        except OSError:
            os.unlink(half)
    _new.clear()


def _read(path, mark):
    """The code in a file that is whole and begins with mark; none otherwise."""
    try:
        with open(path, "rb") as f:
            text = f.read()
    except OSError:
        return {}
    body = len(mark) + 8
    if text[: len(mark)] != mark or text[len(mark) : body] != importlib.util.source_hash(text[body:]):
        return {}
    return marshal.loads(text[body:])


def _named(code, name):
    """Code without the folder of the zip file, which may be moved."""
    inner = tuple(_named(c, name) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=name, co_consts=inner)
