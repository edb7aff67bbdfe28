"""The code that an op is measured with.

The engine puts the digests of this code into the key of rows, and refuses rows of
other code. The files of an op are found by the syntax trees of its files: Python's
own parser finds the imports, and sys.modules or Python's own search their files. Modules that are imported in other ways count from the moment
at which they are loaded, if they lie in the plan's folders or where Python searches: Triton loads what it generates
from its cache. Installed distributions count by their versions, and modules that are
imported and not there (import in a try statement) as distributions of the version "none"."""

import ast
import ctypes
import os
import re
import sys
import sysconfig
from importlib.machinery import ModuleSpec, PathFinder

from .digest import sha256
from .fresh import digests, owned

_DYNAMIC = {"import_module", "__import__", "exec", "eval", "run_path", "run_module", "spec_from_file_location"}


class Imports:
    """The code of the ops of one worker."""

    def __init__(self):
        self._trees = {}  # path: (SHA-256, imports of the file, whether it imports in other ways)
        self._known = set(sys.modules)
        self._own = {}  # names of modules that were loaded while an op was at work, by the op's name
        self._heard = 0  # of _LIBRARIES
        self._linked = {}  # shared libraries that were loaded then, by the op's name

    def begin(self):
        """Ignores what was imported until now: it belongs to no op."""
        self._known, self._heard = set(sys.modules), len(_LIBRARIES)

    def grown(self, op):
        """Returns whether modules or libraries were loaded since the last call, for an op."""
        if len(sys.modules) == len(self._known) and len(_LIBRARIES) == self._heard:
            return False
        new, linked = set(sys.modules) - self._known, _LIBRARIES[self._heard :]
        self._known |= new
        self._heard += len(linked)
        self._own.setdefault(op, set()).update(new)
        self._linked.setdefault(op, set()).update(linked)
        return bool(new or linked)

    def of(self, op, entries):
        """The code of an op: its files, and distributions with their versions. Entries
        are paths of files and names of modules."""
        found, dists, absent, dynamic = {}, set(), set(), False
        todo = self._loaded(self._own.get(op, ())) + [("", path) for path in self._linked.get(op, ())]
        for entry in entries:
            todo += [("", entry)] if os.path.isabs(entry) else _resolved(entry)
        while todo:
            name, path = todo.pop()
            if path in found or _standard(path):
                continue
            dist = _distribution(name, path)
            if dist:
                dists.add(dist)
                continue
            sha, imports, other = self._read(path)
            if not sha:
                continue
            found[path] = (name, sha)
            if other and not dynamic:
                dynamic = True  # it may import what another op has loaded before
                todo += [pair for names in self._own.values() for pair in self._loaded(names)]
            if "." in name:
                todo += _resolved(name.rpartition(".")[0])
            for level, relative, names in imports:
                module = _absolute(level, relative, name, path)
                modules = _resolved(module, names) if module else []
                todo += modules
                # Distributions count by their versions, whatever modules they have.
                if not modules or not _distribution(*modules[-1]):
                    absent.update([at for at in (module.partition(".")[0], module) if at and _absent(at)][:1])
        files = [{"module": name, "path": path, "sha256": sha} for path, (name, sha) in sorted(found.items())]
        return {"files": files, "packages": {**dict.fromkeys(absent, "none"), **_versions(dists)}}

    def _loaded(self, names):
        """Loaded modules with files of the plan, or on Python's path in no distribution."""
        pairs = [(name, _path(name)) for name in names]
        return [(name, path) for name, path in pairs if path and not _standard(path) and (owned(path) or _stray(name, path))]

    def changed(self):
        """The path of a loaded file that is another one by now, or None."""
        for path, sha in list(digests.items()):
            if _sha(path) != sha:
                return path
        return None

    def _read(self, path):
        known = digests.get(path) or _sha(path)
        if not known:
            return "", [], False
        if path not in self._trees or self._trees[path][0] != known:
            imports, other = [], False
            if path.endswith(".py"):
                try:
                    with open(path, "rb") as f:
                        tree = ast.parse(f.read(), path)
                    imports, other = _imports(tree)
                except (OSError, SyntaxError, ValueError):
                    pass  # importing it reports the error
            self._trees[path] = (known, imports, other)
        return self._trees[path]


def _absolute(level, module, importer, path):
    """The full name of the module of an import statement, "" if there is none."""
    if not level:
        return module
    package = importer if os.path.basename(path).startswith("__init__.") else importer.rpartition(".")[0]
    for _ in range(level - 1):
        package = package.rpartition(".")[0]
    return "%s.%s" % (package, module) if package and module else package


def _resolved(module, names=()):
    """A module that is imported with names, and its packages, with their files."""
    out, parts = [], module.split(".")
    for i in range(len(parts)):
        at = _path(".".join(parts[: i + 1]))
        if at and _standard(at):
            return out
        if at:
            out.append((".".join(parts[: i + 1]), at))
    if out and not _distribution(*out[-1]):
        for name in names:  # it may be a module
            at = _path("%s.%s" % (module, name))
            if at:
                out.append(("%s.%s" % (module, name), at))
    return out


def _path(name):
    """The file of a module, or None. Nothing is imported to find it."""
    module = sys.modules.get(name)
    if module is not None:
        path = getattr(module, "__file__", None)
        return _archive(os.path.abspath(path)) if isinstance(path, str) else None
    spec = _spec(name)
    return os.path.abspath(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _absent(name):
    """Whether an import of a module finds none."""
    return name not in sys.modules and name not in sys.builtin_module_names and _spec(name) is None


def _archive(path):
    """The archive that a module was imported from, or its own path."""
    at = path
    while not os.path.isfile(at) and not _standard(path):
        if at == os.path.dirname(at):
            return path
        at = os.path.dirname(at)
    return at if os.path.isfile(at) else path


_LIBRARIES = []  # paths of the plan's shared libraries that were loaded by ctypes


def _hear_libraries(load=ctypes.CDLL.__init__):
    """Has ctypes say which libraries it loads, torch's load_library among its callers."""

    def said(self, name, *args, **kwargs):
        load(self, name, *args, **kwargs)
        path = os.path.abspath(os.fsdecode(name)) if name else ""
        if owned(path) and os.path.isfile(path):
            digests.setdefault(path, _sha(path))
            _LIBRARIES.append(path)

    ctypes.CDLL.__init__ = said


_hear_libraries()


def _spec(name):
    """The spec of a module that is not loaded, or None."""
    parent, _, _ = name.rpartition(".")
    folders = None
    if parent in sys.modules:
        folders = getattr(sys.modules[parent], "__path__", ())
    elif parent:
        spec = _spec(parent)
        folders = spec.submodule_search_locations if spec is not None else ()
    if folders is not None and not folders:
        return None
    try:
        return PathFinder.find_spec(name, folders)
    except (ImportError, ValueError):
        return None
    except KeyError:
        # A namespace package in a package that is not loaded: Python asks the loaded one for
        # its folders.
        spec = ModuleSpec(name, None, is_package=True)
        inner = [os.path.join(folder, name.rpartition(".")[2]) for folder in folders]
        spec.submodule_search_locations = [folder for folder in inner if os.path.isdir(folder)]
        return spec


_DISTRIBUTIONS = {}  # names of installed distributions by a top-level module


def _stray(name, path):
    """Whether a module on Python's path belongs to no distribution."""
    return bool(_below_path(path)) and not _distribution(name, path)


def _below_path(path):
    """A file's path below each folder of Python's path that has it."""
    folders = [folder.rstrip(os.sep) + os.sep for folder in sys.path if folder]
    return [path[len(folder) :] for folder in folders if path.startswith(folder)]


def _distribution(name, path):
    """The installed distribution that a module belongs to, or None. Its file decides: distributions have modules
    under other names (setuptools has distutils and a folder of vendored packages)."""
    if not name or owned(path):
        return None
    if not _DISTRIBUTIONS:
        from importlib import metadata

        _DISTRIBUTIONS[""] = None
        for dist in metadata.distributions(path=_installed()):
            for top in _tops(dist):
                _DISTRIBUTIONS.setdefault(top, dist.metadata["Name"])
    tops = [below.partition(os.sep)[0].partition(".")[0] for below in _below_path(path)]
    return next((_DISTRIBUTIONS[top] for top in [*tops, name.partition(".")[0]] if _DISTRIBUTIONS.get(top)), None)


def _installed():
    """The folders of Python's path that distributions are installed in. Folders inside a package are none of them:
    setuptools adds one when it is imported, for what it has vendored."""
    return [folder for folder in sys.path if not os.path.isfile(os.path.join(folder, os.pardir, "__init__.py"))]


def _tops(dist):
    """The top-level modules of a distribution."""
    text = dist.read_text("top_level.txt")
    if text:
        return text.split()
    lines = (dist.read_text("RECORD") or "").splitlines()
    return {line.partition(",")[0].partition("/")[0].partition(".")[0] for line in lines}


def _versions(dists):
    """The versions of distributions and of what they require."""
    if not dists:
        return {}
    from importlib import metadata

    out, todo, folders = {}, list(dists), _installed()
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        dist = next(iter(metadata.distributions(name=name, path=folders)), None)
        if dist is None or name in out:
            continue
        out[name] = str(dist.version)
        todo += [re.match(r"[A-Za-z0-9._-]+", text).group(0) for text in dist.requires or [] if "extra ==" not in text]
    return out


def _imports(tree):
    """The import statements below a syntax tree as (level, module, names), and whether
    it may import in other ways."""
    out, other = [], False
    for node in ast.walk(tree):
        first = node.args[0] if isinstance(node, ast.Call) and node.args else None
        called = getattr(node.func, "attr", getattr(node.func, "id", "")) if first is not None else ""
        if called in ("import_module", "__import__") and isinstance(first, ast.Constant) and isinstance(first.value, str):
            out.append((0, first.value, []))
        if isinstance(node, ast.Import):
            out += [(0, alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            out.append((node.level, node.module or "", [alias.name for alias in node.names]))
            other = other or any(alias.name in _DYNAMIC for alias in node.names)
        elif isinstance(node, ast.Name):
            other = other or node.id in _DYNAMIC
        elif isinstance(node, ast.Attribute):
            other = other or node.attr in _DYNAMIC
    return out, other


def _sha(path):
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as f:
            return sha256(f.read()).hexdigest()
    except OSError:
        return ""


def _standard(path):
    """Whether a file belongs to the interpreter, or to this worker."""
    installed = {"site-packages", "dist-packages"} & set(path.split(os.sep))
    return not installed and any(path.startswith(folder) for folder in _STANDARD)


_STANDARD = tuple({p.rstrip(os.sep) + os.sep for p in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")) if p})
_STANDARD += (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,)
