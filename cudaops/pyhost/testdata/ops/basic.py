"""Op functions for the tests of the worker host. They use no torch."""

import fcntl
import os
import subprocess
import sys
import threading


def noop(bench):
    return {"latency": 0.001}


def spin(n, bench):
    """Work whose time grows with n."""

    def call():
        total = 0
        for i in range(n):
            total += i
        return total

    return bench(call, kernel_source="python_loop")


def echo(bench, **params):
    return {"latency": 1.0, "seed": bench.seed, "case": bench.case_id, **{"got_" + k: v for k, v in params.items()}}


def per_point(base, k, bench):
    return [{"latency": base * k, "half": part} for part in ("pre", "post")]


def whole_sweep(base, sweep, bench):
    for point in sweep:
        yield {"latency": base + point["k"], "k": point["k"]}


def fails_at(k, limit, bench):
    if k >= limit:
        raise RuntimeError("k is too large")
    return {"latency": 1.0}


def unsupported(bench):
    bench.unsupported("no such kernel before sm_100")


def prints(text, bench):
    print(text)
    os.write(1, b"from C: " + text.encode() + b"\n")
    sys.stderr.write(text + "\n")
    return {"latency": 1.0}


def _pipes():
    """The worker's ends of the pipe: descriptors that close on exec."""
    found = {}
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            target = os.readlink("/proc/self/fd/%d" % fd)
            if target.startswith("pipe:") and fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                found[target] = fd
        except OSError:
            pass
    return found


def descriptors(bench):
    """How many of the worker's pipe ends a child process of the op inherits."""
    code = "import os; print([os.readlink('/proc/self/fd/' + f) for f in os.listdir('/proc/self/fd') if os.path.islink('/proc/self/fd/' + f)])"
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, close_fds=False, text=True, check=True).stdout
    mine = _pipes()
    return {"latency": 1.0, "mine": len(mine), "inherited": sum(p in out for p in mine)}


def forks(bench):
    """How many of them a forked child still holds."""
    mine = _pipes()
    pid = os.fork()
    if pid == 0:
        os._exit(sum(os.path.exists("/proc/self/fd/%d" % fd) for fd in mine.values()))
    _, status = os.waitpid(pid, 0)
    return {"latency": 1.0, "mine": len(mine), "pipes": os.waitstatus_to_exitcode(status)}


def memory(bench):
    raise MemoryError("cannot allocate")


def cuda_fault(bench):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def cuda_oom(bench):
    raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")


def thread_left(bench):
    threading.Thread(target=threading.Event().wait, daemon=False).start()
    return {"latency": 1.0}


def helper_of_file(bench):
    import beside

    return {"latency": beside.VALUE}


def _private(bench):
    raise AssertionError("not an op")


def no_bench(x):
    raise AssertionError("not an op")
