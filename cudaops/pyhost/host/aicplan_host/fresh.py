"""Modules of a plan's own folders, read from their source and never from bytecode.

Python takes the bytecode in __pycache__ for a file's as long as the file has the
same size and the same second of change: after an edit in that second, and where
copies keep times (cp -p, rsync, layers of images), it runs the code of before.
Rows belong to the code in the files."""

import importlib.machinery
import os
import sys

from .digest import sha256

_roots = []
digests = {}  # SHA-256 of the files that were imported, by path


class Source(importlib.machinery.SourceFileLoader):
    """Knows no bytecode: without a file's times the loader compiles, and writes none."""

    def path_stats(self, path):
        raise OSError("%s is always read from its source" % path)

    def get_data(self, path):
        if not os.path.isfile(path):
            raise OSError("%s is no file: a link to a device or a pipe would be read without end" % path)
        data = super().get_data(path)
        digests[os.path.abspath(path)] = sha256(data).hexdigest()
        return data


_LOADERS = [
    (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
    (Source, importlib.machinery.SOURCE_SUFFIXES),
    (importlib.machinery.SourcelessFileLoader, importlib.machinery.BYTECODE_SUFFIXES),
]


def read_source_of(folders):
    """Has imports from these folders, and those in them, read source. What is
    installed there (a virtual environment in a checkout) is left alone."""
    if not _roots:
        sys.path_hooks.insert(0, _hook)
    for folder in folders:
        for root in {os.path.abspath(folder), os.path.realpath(folder)}:
            if root not in _roots:
                _roots.append(root)
    for known in [p for p in sys.path_importer_cache if owned(p)]:
        del sys.path_importer_cache[known]


def _hook(path):
    if not owned(path) or not os.path.isdir(path):
        raise ImportError("not in a folder of the plan", path=path)
    return importlib.machinery.FileFinder(path, *_LOADERS)


def owned(path):
    """Whether a path is in a folder of the plan, and not installed there."""
    path = os.path.abspath(path)
    installed = {"site-packages", "dist-packages"} & set(path.split(os.sep))
    return not installed and any(_in(path, r) for r in _roots) and not any(_in(path, p) for p in _STANDARD)


def _in(path, folder):
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# The folders of the interpreter's own modules. Python asks the hook in the middle
# of imports, so it must import nothing: sysconfig would, where it looks this up.
_STANDARD = {os.path.dirname(os.__file__), os.path.join(sys.exec_prefix, sys.platlibdir, "python%d.%d" % sys.version_info[:2])}
