"""Asks for a fresh process with the sentinel of the other copy of the helper."""

import os
import subprocess
import sys
import tempfile

from collector.helper import WORKER_RESTART, log_perf


def _log(perf_filename, latency):
    return log_perf(
        item_list=[{"phase": "context", "latency": latency}], framework="SGLang", version="0.5.14", device_name="x",
        op_name="gdn", kernel_source="chunk", perf_filename=perf_filename,
    )


def run_gdn_torch(phase, *, perf_filename, device="cuda:0"):
    assert _log(perf_filename, 1.0) is True
    return WORKER_RESTART


def run_nothing(phase, *, perf_filename, device="cuda:0"):
    return 5


class _AtEnd:
    """Logs when it is dropped, after the call has returned."""

    def __init__(self, perf_filename):
        self.perf_filename = perf_filename

    def __del__(self):
        _log(self.perf_filename, 99.0)


def run_logging_late(phase, *, perf_filename, device="cuda:0"):
    _log(perf_filename, 1.0)
    return _AtEnd(perf_filename)


def run_leaving(phase, *, perf_filename, device="cuda:0"):
    """Leaves a folder behind, and has a child do so, as collectors do with the
    configurations of their models."""
    left = os.path.join(tempfile.gettempdir(), "aic_config_%d" % os.getpid())
    os.makedirs(left, exist_ok=True)
    child = subprocess.check_output([sys.executable, "-c", "import tempfile; print(tempfile.mkdtemp())"], text=True).strip()
    kernels = len(os.listdir(os.path.join(tempfile.gettempdir(), "me", "cutlass_python_cache")))
    log_perf(
        item_list=[{"latency": 1.0, "left": left, "child": child, "kernels": kernels, "compiled": os.environ["TORCHINDUCTOR_CACHE_DIR"]}],
        framework="SGLang", version="0.5.14", device_name="x", op_name="x", kernel_source="x", perf_filename=perf_filename,
    )


def run_where(phase, *, perf_filename, device="cuda:0"):
    log_perf(
        item_list=[{"latency": 1.0, "cwd": os.getcwd(), "perf": perf_filename, "device_arg": str(device), "kind": type(device).__name__}],
        framework="SGLang", version="0.5.14", device_name="x", op_name="x", kernel_source="x", perf_filename=perf_filename,
    )
