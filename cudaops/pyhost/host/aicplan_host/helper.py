"""What stands in for the checkout's helper module."""

import contextlib
import os
import sys
import types

from .deferring import Later
from .errors import HostError
from .joining import Form, Join
from .rows import METRICS, number, scalar
from .source import load_file

RESTART_CODE = 10  # the exit status by which collectors ask for a fresh process


class WorkerRestartSignal:
    """What a collector returns to ask for a fresh process. Recognised by the
    name of its class, because a checkout can hold several copies of it."""


class HelperShim(types.ModuleType):
    """Stands in for the checkout's helper module under both of its names. The
    two functions that touch measuring and files are ours; every other name is
    the checkout's own, loaded on first use."""

    def __init__(self, root, bench, sink, filling):
        super().__init__("helper")
        self.__dict__.update(
            _root=root, _bench=bench, _sink=sink, _filling=filling, _real=None, _join=Join(),
            benchmark_with_power=self._benchmark, log_perf=self._log_perf,
        )
        self.__file__ = os.path.join(root, "collector", "helper.py")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        real = self._load()
        if real is not None and hasattr(real, name):
            return getattr(real, name)
        control = {
            "EXIT_CODE_RESTART": RESTART_CODE,
            "WorkerRestartSignal": WorkerRestartSignal,
            "WORKER_RESTART": _SENTINEL,
        }
        if name in control:
            return control[name]
        raise AttributeError("module 'helper' of %s has no attribute %r" % (self._root, name))

    def _load(self):
        if self._real is None and os.path.exists(self.__file__):
            real = load_file(self.__file__, "aicplan_checkout_helper")
            real.benchmark_with_power, real.log_perf = self._benchmark, self._log_perf
            self.__dict__["_real"] = real
        return self._real

    @contextlib.contextmanager
    def _benchmark(
        self, device, kernel_func, num_warmups=3, num_runs=6, repeat_n=1, measure_power=None,
        power_min_duration=None, allow_graph_fail=False, use_cuda_graph=True, **unknown
    ):
        if self._sink.stale():
            raise HostError("a thread that an earlier case has left behind cannot measure")
        graph = self._bench.settings["graph"]
        if not use_cuda_graph:
            graph = "off"
        elif graph == "prefer" and not allow_graph_fail:
            graph = "require"
        with self._filling.paused():
            got = self._bench(kernel_func, graph=graph, warmups=num_warmups, runs=num_runs, repeat=repeat_n)
        self._join.measured(got)
        yield {
            "latency_ms": got["latency"],
            "power_stats": None,  # the engine reads power from the device
            "throttled": got.get("throttled"),  # None if no driver was asked
            "num_runs_executed": got["executions"],
            "used_cuda_graph": got["used_cuda_graph"],
        }

    @contextlib.contextmanager
    def case(self):
        """Within it, rows and measurements belong to one case."""
        outer, self.__dict__["_join"] = self._join, Join()
        try:
            yield
        finally:
            self.__dict__["_join"] = outer

    def _log_perf(
        self, item_list, framework="", version="", device_name="", op_name="", kernel_source="",
        perf_filename="", power_stats=None, **unknown
    ):
        for item in item_list:
            row = {"op_name": op_name, "kernel_source": kernel_source}
            row.update((str(k), plain_value(str(k), v)) for k, v in item.items())
            written = item.get("latency")
            if isinstance(row.get("latency"), (int, float)) and not isinstance(row["latency"], bool):
                exact = written if isinstance(written, (str, Later)) else row["latency"]
                row["latency"], stats = self._join.of(row["latency"], exact)
                if any(isinstance(value, Later) for name, value in item.items() if name != "latency"):
                    row["latency"] = Form(None)  # other columns are made of estimates
                row = dict(stats, **row)
            for key in ("power", "power_limit"):
                if power_stats and power_stats.get(key) is not None:
                    row[key] = plain_value(key, power_stats[key])
            if framework or version or device_name:
                row["logged_version"], row["logged_device"] = str(version), str(device_name)
            self._sink.add({str(k): v if isinstance(v, Form) else scalar(str(k), v) for k, v in row.items()}, perf_filename)
        self._join.logged()
        return True


def plain_value(name, value):
    """A value of a row as it would come back from the perf file: collectors write
    CSV, so metrics may be text, and any other value is written as text."""
    if name in METRICS and isinstance(value, str):
        value = number(value.strip())
    try:
        return scalar(name, value)
    except HostError:
        return str(value)


_SENTINEL = WorkerRestartSignal()


def hook_helper(root, bench, sink, filling):
    """Makes `helper` and `collector.helper` one and the same shim."""
    shim = HelperShim(root, bench, sink, filling)
    sys.modules["helper"] = sys.modules["collector.helper"] = shim
    for path in (os.path.join(root, "collector"), root):
        if path not in sys.path:
            sys.path.append(path)
    return shim
