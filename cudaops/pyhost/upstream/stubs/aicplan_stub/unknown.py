"""A value about which nothing is known."""

import inspect
import os
import types

# Before the name of an unknown where it is written down.
MARK = "unknown: "


class Count:
    """How often a branch was taken on an unknown value."""

    asked = 0
    # What an unknown value is when nothing speaks for either branch.
    truth = True
    # Functions that the checkout put in place of a framework's, by name: a
    # framework would call them. Tried when nothing else gives a row.
    calls_hooks = False
    hooks = {}


# How branches go for which nothing speaks, and whether hooks are called: one of
# these may lead to a kernel that exists.
POLICIES = ((True, False), (False, False), (True, True))


def choose(number):
    """Takes a policy; processes that collectors start take the same."""
    Count.truth, Count.calls_hooks = POLICIES[number]
    os.environ["AICPLAN_STUB_POLICY"] = str(number)


class Unknown:
    """What a framework would have given. Operations on it give unknowns; it has
    every attribute. Named ones are attributes of modules: two different names of
    one enum are different values."""

    def __init__(self, path, named=False, empty=False, truth=None):
        d = self.__dict__
        d["_path"], d["_named"], d["_empty"], d["_truth"], d["_known"] = path, named, empty, truth, {}

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            if name in ("__name__", "__qualname__"):
                return self._path.rpartition(".")[2] if self._named else Unknown("name of " + self._path)
            if name == "__signature__":
                return AnySignature(self._path)
            if name == "__module__":
                return self._path.rpartition(".")[0]
            raise AttributeError(name)
        known = self._known
        if name not in known:
            known[name] = named(self._path + "." + name, self._named)
        return known[name]

    def __setattr__(self, name, value):
        self._known[name] = value
        hook(self._path + "." + name, value)

    def __delattr__(self, name):
        self._known.pop(name, None)

    @property
    def name(self):
        return self._known.get("name", self._path.rpartition(".")[2])

    def __call__(self, *args, **kwargs):
        # A decorator gives back what it decorates.
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return args[0]
        last = self._path.rpartition(".")[2]
        call_hooks()
        if last == "get" and not args and ".envs." in self._path:
            return Unknown(self._path + "()", truth=False)  # an unset switch of a framework
        return Unknown(self._path + "()", empty=last in ("keys", "values", "items"))

    def __mro_entries__(self, bases):
        return (Base,)

    def __repr__(self):
        return "<%s>" % self._path

    def __str__(self):
        return MARK + self._path if not self._named else self._path.rpartition(".")[2]

    def __format__(self, spec):
        return str(self)

    def __hash__(self):
        return id(self)

    def __bool__(self):
        Count.asked += 1
        return Count.truth if self._truth is None else self._truth

    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(other, Unknown) and self._named and other._named:
            return False
        if other is None:
            return False
        return Unknown("(%s == ...)" % self._path)

    def __ne__(self, other):
        same = self.__eq__(other)
        return not same if isinstance(same, bool) else same

    def __iter__(self):
        if not self._empty:
            yield Unknown(self._path + "[...]")

    def __len__(self):
        return 1

    def __contains__(self, item):
        Count.asked += 1
        return Count.truth

    def __getitem__(self, key):
        return Unknown(self._path + "[...]")

    def __setitem__(self, key, value):
        pass

    def __delitem__(self, key):
        pass

    def __enter__(self):
        return Unknown(self._path)

    def __exit__(self, *what):
        return False

    def __int__(self):
        return 1

    def __index__(self):
        return 1

    def __float__(self):
        return 1.0

    def __fspath__(self):
        return "/nonexistent/" + self._path

    def keys(self):
        return []

    def __instancecheck__(self, instance):
        Count.asked += 1
        return Count.truth


def _operator(name):
    def operate(self, *others):
        return Unknown("(%s %s)" % (self._path, name.strip("_")))

    return operate


BOTH = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
ONE = ("neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil", "lt", "le", "gt", "ge")

for _name in BOTH + ONE:
    setattr(Unknown, "__%s__" % _name, _operator(_name))
for _name in BOTH:
    setattr(Unknown, "__r%s__" % _name, _operator("r" + _name))


class Base:
    """What collectors inherit from where they extend a class of a framework."""

    def __init__(self, *args, **kwargs):
        pass

    def __init_subclass__(cls, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Unknown("%s.%s" % (type(self).__name__, name))

    def __call__(self, *args, **kwargs):
        forward = getattr(type(self), "forward", None)
        return forward(self, *args, **kwargs) if forward else Unknown(type(self).__name__ + "()")


class AnySignature(inspect.Signature):
    """A signature that may have any parameter."""

    __slots__ = ("_path",)

    def __init__(self, path):
        super().__init__()
        self._path = path

    @property
    def parameters(self):
        return Unknown("signature of " + self._path)

    def bind(self, *args, **kwargs):
        return Unknown("signature of " + self._path)


def hook(path, value):
    """Notes what a checkout puts in place of a framework's function."""
    if isinstance(value, types.FunctionType):
        Count.hooks[path] = value
    else:
        Count.hooks.pop(path, None)


def call_hooks():
    if not Count.calls_hooks:
        return
    Count.calls_hooks = False
    try:
        for function in list(Count.hooks.values()):
            try:
                function(*[Unknown("argument")] * 8)
            except Exception:
                pass
    finally:
        Count.calls_hooks = True


class FrameworkError(Exception):
    """Every exception of a framework."""


def named(path, is_named):
    """An attribute: exceptions are classes, since code catches them."""
    last = path.rpartition(".")[2]
    if last.endswith(("Error", "Exception")) and last[:1].isupper():
        return type(last, (FrameworkError,), {})
    return Unknown(path, is_named)


def is_unknown(value):
    return isinstance(type(value), type) and issubclass(type(value), Unknown)


choose(int(os.environ.get("AICPLAN_STUB_POLICY", "0")))
