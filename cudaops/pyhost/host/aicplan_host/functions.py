"""Ops that are Python functions of the case's parameters."""

import contextlib
import importlib
import inspect
import os

from .errors import HostError
from .rows import clean_rows
from .source import find_ops, load_file

MOST_ROWS = 1_000_000  # of a generator; those of one that does not end would take all memory


class FunctionOp:
    """An op that is a Python function of the case's parameters and bench."""

    def __init__(self, name, binding, host):
        self.name, self.binding, self.host = name, binding, host
        self._fn = self._path = None
        if "file" not in binding and "module" not in binding:
            function = binding.get("function", name)
            found = find_ops(host.paths)
            if function not in found:
                raise HostError(
                    "op %s: %s has no function %s that takes bench; there is %s"
                    % (name, ", ".join(host.paths) or "the runtime names no path and", function, ", ".join(sorted(found)) or "none")
                )
            self._where = found[function]
        else:
            self._where = binding

    def load(self):
        if self._fn is not None:
            return
        b = self._where
        path = b.get("file")
        if path:
            for folder in [""] + self.host.paths:
                if os.path.exists(os.path.join(folder, path)):
                    path = os.path.join(folder, path)
                    break
            else:
                raise HostError("op %s: there is no file %s" % (self.name, path))
            self._path = os.path.abspath(path)
            module = load_file(path)
        else:
            module = importlib.import_module(b["module"])
        function = b.get("function", self.name)
        fn = getattr(module, function, None)
        if fn is None:
            raise HostError("op %s: %s has no function %s" % (self.name, path or b["module"], function))
        self._params = inspect.signature(fn).parameters
        self._open = any(p.kind is p.VAR_KEYWORD for p in self._params.values())
        self._fn = fn

    def source(self):
        return self._where.get("file") or self._where["module"]

    def entries(self):
        """Where the op's code begins: paths of files and names of modules."""
        return [self._path or self._where["module"]]

    def run(self, case):
        params = dict(case["params"], **self.binding.get("args", {}))
        sweep = case.get("sweep") or []
        if not sweep or "sweep" in self._params:
            extra = {"sweep": sweep} if "sweep" in self._params else {}
            return clean_rows(self._call(params, extra), self.name)
        rows = []
        for done, point in enumerate(sweep):
            try:
                got = clean_rows(self._call(dict(params, **point), {}), self.name)
            except Exception as err:
                where = ", ".join("%s=%s" % kv for kv in point.items())
                err.args = ("%s (at %s, after %d of %d points)" % (err, where, done, len(sweep)),)
                err.rows = rows
                raise
            got = [dict(point, **row) for row in got]
            self.host.tell(case, got)
            rows += got
        return rows

    def _call(self, params, extra):
        kwargs = dict(params, **extra)
        if "bench" in self._params:
            kwargs["bench"] = self.host.bench
        if not self._open:
            unknown = [k for k in kwargs if k not in self._params]
            if unknown:
                raise HostError(
                    "op %s takes no parameter %s; it would measure the same thing for every value of it"
                    % (self.name, ", ".join(unknown))
                )
        missing = [
            n for n, p in self._params.items()
            if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and n not in kwargs
        ]
        if missing:
            raise HostError("op %s needs %s, which the case does not have" % (self.name, ", ".join(missing)))
        try:
            got = self._fn(**kwargs)
            if inspect.isgenerator(got):
                got = self._yielded(got)
            elif not isinstance(got, (dict, list, tuple, type(None))):
                try:
                    got = list(got)
                except TypeError:
                    raise HostError("%s returned a %s; an op returns a row or a list of rows" % (self.name, type(got).__name__)) from None
        finally:
            self.host.channel.end_forked()
        constants = self.binding.get("columns")
        if constants and got is not None:
            got = [dict(constants, **row) for row in ([got] if isinstance(got, dict) else got)]
        return got

    def _yielded(self, rows):
        """The rows of a generator. One that goes through a sweep and raises on its
        way gives the error those that it has yielded."""
        out = []
        try:
            for row in rows:
                out.append(row)
                if len(out) > MOST_ROWS:
                    raise HostError("%s yields more than %d rows for a case; its generator may be endless" % (self.name, MOST_ROWS))
        except Exception as err:
            if "sweep" in self._params and out:
                constants = self.binding.get("columns") or {}
                with contextlib.suppress(Exception):
                    err.rows = clean_rows([dict(constants, **row) for row in out], self.name)
            raise
        return out
