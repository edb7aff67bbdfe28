"""Python files: read without running them, and imported."""

import ast
import glob
import importlib.machinery
import importlib.util
import os
import platform
import re
import sys

from .digest import sha256
from .errors import HostError, Restart
from .fresh import Source, digests, read_source_of


def load_file(path, name=None):
    """Imports a Python file under a name of its own; its folder is searched for
    the modules in its folder."""
    path = os.path.abspath(path)
    name = name or "aicplan_op_%s_%s" % (
        re.sub(r"\W", "_", os.path.splitext(os.path.basename(path))[0]),
        sha256(path.encode()).hexdigest()[:8],
    )
    if name in sys.modules:
        return sys.modules[name]
    folder = os.path.dirname(path)
    _apart_from(folder)
    read_source_of([folder])
    spec = importlib.util.spec_from_file_location(name, path, loader=Source(name, path) if path.endswith(".py") else None)
    if spec is None:
        raise HostError("%s is not a Python file" % path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _apart_from(folder):
    """Raises Restart if an import from folder would find a module that this process has
    loaded from another folder with files of ops."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if "." in name or name.startswith("aicplan_") or not isinstance(path, str) or os.path.abspath(path) not in digests:
            continue
        if os.path.dirname(os.path.abspath(path)) in (folder, os.path.join(folder, name)):
            continue
        if any(os.path.exists(os.path.join(folder, name + end)) for end in ("", *_ENDS)):
            raise Restart("%s and %s have a module %s" % (folder, os.path.dirname(path), name))


_ENDS = importlib.machinery.all_suffixes()


def find_ops(paths):
    """Op functions in files and folders, without importing them: every public
    function at the top of a file that has a parameter named bench."""
    found = {}
    for entry in paths:
        files = sorted(glob.glob(os.path.join(entry, "*.py"))) if os.path.isdir(entry) else [entry]
        if not os.path.exists(entry):
            raise HostError("%s does not exist; the runtime's path names it" % entry)
        for path in files:
            for node in parsed(path).body:
                if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                    continue
                names = [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
                if "bench" not in names:
                    continue
                old = found.setdefault(node.name, {"file": path, "function": node.name})
                if not os.path.samefile(old["file"], path):
                    raise HostError("op %s is in %s and in %s; the runtime's path must name one of them" % (node.name, old["file"], path))
    return found


def parsed(path):
    """The syntax tree of a file, without running any of it."""
    if not os.path.isfile(path):
        raise HostError("%s is no file: a link to a device or a pipe would be read without end" % path)
    with open(path, "rb") as f:
        text = f.read()
    try:
        return ast.parse(text, path)
    except (SyntaxError, ValueError) as err:
        where = "%s, line %s" % (path, err.lineno) if getattr(err, "lineno", None) else path
        raise HostError("%s is no Python %s file: %s" % (where, platform.python_version(), getattr(err, "msg", err))) from err
