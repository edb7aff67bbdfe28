"""An op that does what frameworks do to their workers."""

import ctypes
import fcntl
import json
import os
import subprocess
import sys
import threading


def torture(kind, i, bench):
    _answer_again()
    return globals()["_" + kind](i, bench)


def _works(i, bench):
    return {"latency": 0.5, "echo": i}


def _raises(i, bench):
    raise ValueError("bad case %d" % i)


def _hangs(i, bench):
    threading.Event().wait()


def _hangs_in_c(i, bench):
    # Holds the interpreter's lock for good: no Python thread runs any more.
    libc = ctypes.PyDLL(None)
    while True:
        libc.pause()


def _segfaults(i, bench):
    ctypes.string_at(0)


def _aborts(i, bench):
    os.abort()


def _exits_0(i, bench):
    os._exit(0)


def _exits_10(i, bench):
    os._exit(10)


def _sys_exit_0(i, bench):
    sys.exit(0)


def _sys_exit_10(i, bench):
    sys.exit(10)


def _prints_100_mb(i, bench):
    block = b"x" * (1 << 20) + b"\n"
    for _ in range(100):
        os.write(1, block)
    return _works(i, bench)


def _forks_children(i, bench):
    """Leaves processes behind, in other process groups too."""
    wait = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    children = [subprocess.Popen(wait).pid, subprocess.Popen(wait, start_new_session=True).pid]
    pid = os.fork()
    if pid == 0:
        threading.Event().wait()
    return dict(_works(i, bench), children=" ".join(map(str, children + [pid])))


_leak = []


def _leaks_memory(i, bench):
    _leak.append(bytearray(os.urandom(1 << 20) * 24))
    return _works(i, bench)


def _returns_nan(i, bench):
    return {"latency": float("nan"), "echo": i}


def _returns_inf(i, bench):
    return {"latency": float("inf"), "echo": i}


def _wrong_columns(i, bench):
    return {"time": 1.0, "echo": i}


def _wrong_type(i, bench):
    return {"latency": 1.0, "echo": [i]}


def _returns_none(i, bench):
    return None


def _bytes_not_utf8(i, bench):
    return {"latency": 1.0, "note": b"\xff\xfe%d" % i}


def _raises_not_utf8(i, bench):
    os.write(2, b"\xff\xfe not text\n")
    raise RuntimeError(os.fsdecode(b"file \xff\xfe is broken"))


def _pipe():
    """The worker's own end of the pipe to the engine, as a library that scans
    descriptors might find it."""
    for fd in sorted(map(int, os.listdir("/proc/self/fd")), reverse=True):
        try:
            if os.readlink("/proc/self/fd/%d" % fd).startswith("pipe:") and fd >= 200:
                flags = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
                if flags == os.O_WRONLY and fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                    return fd
        except OSError:
            pass
    raise AssertionError("no pipe")


def _garbage_on_the_pipe(i, bench):
    os.write(_pipe(), b"\xff\xfe\x00 not a message %d\n" % i)
    return _works(i, bench)


_after = []


def _rows_after_its_result(i, bench):
    frame = sys._getframe()
    while "case" not in frame.f_locals:
        frame = frame.f_back
    _after.append(frame.f_locals["case"]["seq"])
    return _works(i, bench)


def _answer_again():
    """Ends the case before this one a second time."""
    for seq in _after:
        message = {"type": "result", "seq": seq, "rows": [{"latency": 99.0}], "seconds": 1.0}
        os.write(_pipe(), (json.dumps(message) + "\n").encode())
    _after.clear()
