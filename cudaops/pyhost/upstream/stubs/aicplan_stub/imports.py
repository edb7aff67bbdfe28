"""The modules of the stand-ins."""

import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types

from .unknown import Unknown, hook, named


class Module(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name):
        path = "%s.%s" % (self.__name__, name)
        if path in Finder.known:
            value = Finder.known[path]
        elif name.startswith("__") and name.endswith("__"):
            if name == "__version__":
                return "0.0.0"
            raise AttributeError(name)
        elif path in sys.modules:
            value = sys.modules[path]
        elif any(k.startswith(path + ".") for k in Finder.known):
            import importlib

            value = importlib.import_module(path)
        else:
            value = named(path, True)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        hook("%s.%s" % (self.__name__, name), value)

    def __call__(self, *args, **kwargs):
        return Unknown(self.__name__ + "()")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    known = {}
    tops = frozenset()

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in self.tops:
            return importlib.machinery.ModuleSpec(fullname, self, origin="stand-in", is_package=True)
        return None

    def create_module(self, spec):
        module = Module(spec.name)
        module.__path__ = []
        module.__file__ = "/nonexistent/%s/__init__.py" % spec.name.replace(".", "/")
        return module

    def exec_module(self, module):
        pass


def install(modules, known):
    Finder.known, Finder.tops = known, frozenset(modules)
    sys.meta_path.insert(0, Finder())
    versions, plain = {k.rpartition(".")[0]: v for k, v in known.items() if k.endswith(".__version__")}, importlib.metadata.version

    def version(name):
        try:
            return plain(name)
        except importlib.metadata.PackageNotFoundError:
            top = name.replace("-", "_")
            if top in versions:
                return versions[top]
            if any(top.startswith((t, t.replace("_", ""))) for t in Finder.tops):
                return "0.0.0"
            raise

    importlib.metadata.version = version
