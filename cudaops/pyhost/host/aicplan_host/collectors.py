"""Ops of existing collectors, called as their own runner would call them."""

import ast
import contextlib
import importlib
import os
import re
import shutil
import sys
import threading

from .defaults import TorchDefaults
from .deferring import Deferral, Deferred
from .errors import UNSUPPORTED, HostError, clip
from .filling import left_unfilled
from .helper import RESTART_CODE
from .joining import Form
from .matching import mapped, plain, positional, word
from .rows import clean_rows
from .source import parsed
from .spool import perf_files, read_perf_files, read_spool, remove_perf_files


class CollectorOp:
    """An op of an existing collector, called as its own runner would call it."""

    def __init__(self, name, binding, host):
        self.name, self.binding, self.host = name, binding, host
        self._run = None
        self._index = None
        self._module_name = None  # of a binding with versions, once asked for
        self._unknown = ""  # words of listed cases that the binding does not map
        if "run" not in binding:
            raise HostError("op %s: the binding names no run function" % name)
        if "module" not in binding and not binding.get("versions"):
            raise HostError("op %s: the binding names no module" % name)
        if "match" in binding and "getter" not in binding:
            raise HostError("op %s: match looks cases up in what a getter lists; the binding names no getter" % name)
        if binding.get("uninitialised", "random") != "random":
            raise HostError('op %s: the binding\'s uninitialised is "random" or left out' % name)
        if binding.get("cache", "cold") != "cold":
            raise HostError('op %s: the binding\'s cache is "cold" or left out' % name)

    def source(self):
        return self.module_name()

    def entries(self):
        """Where the op's code begins: the name of its module."""
        return [self.module_name()]

    def module_name(self):
        b = self.binding
        if "versions" not in b:
            return b["module"]
        if self._module_name is None:
            routes = b["versions"]
            at, oldest = self.host.newest([route["min"] for route in routes])
            if at < 0:
                raise HostError(
                    "op %s: no module for %s %s; the oldest route is for %s"
                    % (self.name, self.host.package, self.host.version, routes[oldest]["min"]),
                    UNSUPPORTED,
                )
            self._module_name = routes[at]["module"]
        return self._module_name

    def located(self):
        """The module's name, once it is known to be there and for this framework."""
        if not self.host.root:
            raise HostError("op %s is bound to a collector; the runtime needs collector_root = the checkout's folder" % self.name)
        if not os.path.isdir(self.host.root):
            raise HostError("op %s: collector_root %s is no folder here" % (self.name, self.host.root))
        name = self.module_name()
        self._check_compat(name)
        return name

    def load(self):
        if self._run is not None:
            return
        name = self.located()
        with TorchDefaults.kept():
            module = importlib.import_module(name)
            self._defaults = TorchDefaults()
        for role in ("run", "getter"):
            want = self.binding.get(role)
            if want and not callable(getattr(module, want, None)):
                raise HostError("op %s: %s has no function %s" % (self.name, name, want))
        self._module = module
        self.host.collectors.add(name)
        run = getattr(module, self.binding["run"])
        self._names = positional(run)
        if "match" in self.binding:
            # What the getter lists is known, or known to fail, before the first case.
            with TorchDefaults.kept():
                self._defaults.set()
                self._index = self._build(self.binding["match"])
        self._run = run

    def _check_compat(self, name):
        """Holds the module's __compat__ against the framework, without running
        any of the module."""
        path = os.path.join(self.host.root, *name.split(".")) + ".py"
        if not os.path.exists(path):
            raise HostError("op %s: the checkout %s has no module %s" % (self.name, self.host.root, name))
        for node in parsed(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(t, ast.Name) and t.id == "__compat__" for t in targets):
                compat = ast.literal_eval(node.value)
                spec = re.sub(r"^[A-Za-z_][\w.-]*", "", compat.strip())
                if not self.host.version:
                    raise HostError("op %s: %s is written for %s; the runtime names no package" % (self.name, name, compat))
                if not self.host.fits(spec):
                    raise HostError(
                        "op %s: %s is written for %s and this is %s %s"
                        % (self.name, name, compat, self.host.package, self.host.version),
                        UNSUPPORTED,
                    )

    def _preparing(self):
        """A context in which memory that the collector leaves uninitialised gets values,
        if the binding or the runtime requires it."""
        return self.host.filling.preparing() if self._fills else contextlib.nullcontext()

    @property
    def _fills(self):
        return (self.host.options.get("uninitialised") or self.binding.get("uninitialised")) == "random"

    def _arguments(self, case):
        params, sweep = case["params"], case.get("sweep") or []
        b = self.binding
        if "match" in b:
            return self._lookup(params)
        specs = b.get("args")
        if specs is None:
            specs = [name for name in self._names if name not in ("perf_filename", "device")]
        out = []
        for spec in specs:
            if isinstance(spec, dict) and "value" in spec:
                out.append(spec["value"])
            elif isinstance(spec, dict) and "sweep" in spec:
                if not sweep:
                    raise HostError("op %s: the binding passes the sweep of %s and the case has none" % (self.name, spec["sweep"]))
                out.append([point[spec["sweep"]] for point in sweep])
            elif isinstance(spec, dict) and "items" in spec:
                out.append([self._column(s, params) for s in spec["items"]])
            elif isinstance(spec, (dict, str)):
                out.append(self._column(spec, params))
            else:
                out.append(spec)
        return out

    def _column(self, spec, params):
        spec = {"column": spec} if isinstance(spec, str) else spec
        name = spec["column"]
        if name not in params:
            raise HostError("op %s: the binding passes %s, which the case does not have" % (self.name, name))
        where = "op %s, %s" % (self.name, name)
        value = mapped(spec.get("map"), params[name], where)
        return value + spec["add"] if "add" in spec else value

    def _lookup(self, params):
        match = self.binding["match"]
        for column in match:
            if column not in params:
                raise HostError("op %s: the binding matches %s, which the case does not have" % (self.name, column))
        key = tuple(plain(params[c]) for c in match)
        found = self._index.get(key, [])
        if len(found) == 1:
            return found[0]
        what = ", ".join("%s=%s" % (c, params[c]) for c in match)
        if not found:
            raise HostError(
                "op %s: %s lists no case with %s; the plan's grid asks for more than this checkout and device have%s"
                % (self.name, self.binding["getter"], what, self._unknown),
                UNSUPPORTED,
            )
        raise HostError("op %s: %s lists %d cases with %s; match needs more columns" % (self.name, self.binding["getter"], len(found), what))

    def _build(self, match):
        names = self._names
        readers = []
        for column, spec in match.items():
            spec = spec if isinstance(spec, dict) else {"param": spec}
            at = spec["param"]
            if isinstance(at, str):
                if at not in names:
                    raise HostError("op %s: %s has no parameter %s" % (self.name, self.binding["run"], at))
                at = names.index(at)
            readers.append((column, int(at), spec))
        index, unknown = {}, set()
        getter = self.binding["getter"]
        try:
            items = list(getattr(self._module, getter)())
        except (Exception, SystemExit) as err:
            raise HostError(
                "op %s: %s of %s raised %s: %s" % (self.name, getter, self._module.__name__, type(err).__name__, clip(err) or "no text")
            ) from err
        for item in items:
            args = item.get("params", item) if isinstance(item, dict) else item
            if isinstance(args, dict):
                args = [args.get(n) for n in names]
            args = list(args)
            key = []
            for column, at, spec in readers:
                value = plain(args[at]) if at < len(args) else None
                table = spec.get("map")
                if table is not None and word(value) not in table:
                    # No column of a plan can ask for it; a wrong map shows here.
                    unknown.add("%s = %s" % (spec["param"], word(value)))
                    key = None
                    break
                value = plain(mapped(table, value, "op %s, %s" % (self.name, column)))
                key.append(value + spec["add"] if "add" in spec else value)
            if key is None:
                continue
            same = index.setdefault(tuple(key), [])
            if repr(args) not in [repr(a) for a in same]:
                same.append(args)
        if unknown:
            self._unknown = "; the binding's map does not know %s, which %s lists too" % (", ".join(sorted(unknown)), getter)
        return index

    def run(self, case):
        """(rows, why the process is to be replaced or None). The rows are a Deferred if
        the collector has gone on without latencies that they need."""
        host, sink, bench = self.host, self.host.sink, self.host.bench
        args = self._arguments(case)
        spool = os.path.join(host.workdir, "spool", str(case["seq"]))
        os.makedirs(spool)
        outer = os.environ.get("AICPLAN_SPOOL"), sink.rows, sink.open, sink.told, sink.before, bench.evict
        os.environ["AICPLAN_SPOOL"] = spool
        before, others = os.getcwd(), perf_files(host.workdir, "*")
        os.chdir(host.workdir)
        sink.rows, sink.open, sink.told = [], True, None
        sink.before = set(threading.enumerate()) - {threading.current_thread()}
        restart = None
        perf = self.binding.get("perf_filename", self.name + "_perf.txt")
        bench.deferral = Deferral(host.offers, sys._getframe().f_code) if host.defers(case) else None
        try:
            # Older collectors carry the perf file in their list of cases.
            keywords, names = {}, self._names
            for word, value in (("perf_filename", perf), ("device", host.torch_device)):
                if word not in names[: len(args)]:
                    keywords[word] = value
            if "perf_filename" not in keywords:
                perf = args[names.index("perf_filename")]
            if len(case.get("sweep") or []) > 1:
                # What is measured is safe if this process dies on its way.
                sink.told = lambda name, row: host.tell(case, [self._row(name, row, perf)])
            try:
                bench.evict = "cache" in self.binding
                with contextlib.ExitStack() as stack:
                    stack.enter_context(TorchDefaults.kept())
                    stack.enter_context(self._preparing())
                    if bench.deferral is not None:
                        stack.enter_context(bench.cuda.caching())
                        stack.enter_context(bench.cuda.own_memory())
                    self._defaults.set()
                    try:
                        got = self._run(*args, **keywords)
                    finally:
                        host.channel.end_forked()
            except SystemExit as stop:
                if stop.code != RESTART_CODE:
                    raise
                restart = "%s ended with exit status %d" % (self.name, RESTART_CODE)
            else:
                if type(got).__name__ == "WorkerRestartSignal":
                    restart = "%s asked for a fresh process" % self.name
            sink.told = None
            rows, faults = self._logged(spool, others)
            if faults:
                more = " (and %d lines more)" % (len(faults) - 3) if len(faults) > 3 else ""
                raise HostError("the perf file of %s has lines that are no rows: %s%s" % (self.name, "; ".join(faults[:3]), more))
            rows = self._finished(rows, perf)
        except BaseException as err:
            sink.told = None
            self._keep(err, spool, others, perf)
            if restart:
                # What the case left behind is why a fresh process was asked for.
                err.restart = restart
            raise
        finally:
            _, sink.rows, sink.open, sink.told, sink.before, bench.evict = outer
            os.chdir(before)
            os.environ.pop("AICPLAN_SPOOL")
            if outer[0] is not None:
                os.environ["AICPLAN_SPOOL"] = outer[0]
            if self._fills and left_unfilled(spool):
                host.warn(
                    'op %s measures in processes that it starts anew: uninitialised = "random" does not reach them, and its '
                    "rows are of memory as the collector leaves it" % self.name
                )
            shutil.rmtree(spool, ignore_errors=True)
            remove_perf_files(host.workdir, others)
        return rows, restart

    def _finished(self, logged, perf):
        """The rows, or what makes them once their latencies are there."""
        deferral = self.host.bench.deferral
        if deferral is None or not deferral.used:
            return self._finish(logged, perf)
        return Deferred(deferral, logged, lambda rows: self._finish(rows, perf))

    def _logged(self, spool, others):
        """The rows that this process and its children have logged for the case, and what
        is wrong with lines of perf files that are no rows."""
        written, faults = read_perf_files(self.host.workdir, others)
        if self.host.bench.deferral is not None and self.host.bench.deferral.used:
            written = [(name, dict(row, latency=Form(None))) for name, row in written]  # the text may be of estimates
        return self.host.sink.rows + read_spool(spool) + written, faults

    def _keep(self, err, spool, others, perf):
        """Gives the error the rows that were logged before it: collectors that
        sweep log what works and raise at the end."""
        try:
            rows, _ = self._logged(spool, others)
            if rows:
                err.rows = self._finished(rows, perf)
        except Exception as bad:
            self.host.channel.log("warn", "op %s: the rows that were logged before the error cannot be used: %s" % (self.name, bad))

    def _finish(self, rows, perf):
        if not rows:
            raise HostError("%s returned without logging a row" % self.binding["run"])
        return clean_rows([self._row(name, row, perf) for name, row in rows], self.binding["run"])

    def _row(self, name, row, perf):
        """A logged row as the plan knows it."""
        rename, words = self.binding.get("rename", {}), self.binding.get("words", {})
        self.host.check_version(self.name, row.get("logged_version", ""))
        row = {rename.get(k, k): v for k, v in row.items() if k not in ("logged_version", "logged_device")}
        row.update([(k, words[k].get(word(v), v)) for k, v in row.items() if k in words])
        stem = os.path.splitext(name)[0]
        if stem != os.path.splitext(os.path.basename(perf))[0]:
            row["perf_table"] = stem  # a row of another table than the op's own
        return dict(self.binding.get("columns", {}), **row)
