"""The conversation with the engine, from hello to bye."""

import contextlib
import errno
import faulthandler
import os
import signal
import sys
import traceback

from .channel import Channel
from .compiled import keep
from .errors import HostError, Restart
from .host import Host

PROTOCOL = 1


def serve(channel):
    init = channel.read()
    if init is None:
        return 1
    base = {"type": "hello", "protocol": PROTOCOL, "pid": os.getpid()}
    empty = {"version": "", "device": "", "window": 1, "ops": []}
    host = None
    try:
        if init.get("type") != "init" or init.get("protocol") != PROTOCOL:
            raise HostError("the engine speaks version %s of the worker protocol, this worker version %d" % (init.get("protocol"), PROTOCOL))
        host = Host(channel, init)
        hello = host.hello()
    except BaseException as err:
        failure = Host.failure(host or Host(channel, {}), err, None)
        failure.pop("fatal", None)
        cause = err.__cause__ or err
        if not isinstance(cause, HostError):
            traceback.print_exception(type(cause), cause, cause.__traceback__, chain=False)
        channel.send(**base, **empty, error=failure)
        if host is not None:
            host.close()
        return 1
    channel.send(**base, **hello)
    host.report(host._only())
    try:
        while True:
            if host.in_batches and channel.first("configure", "shutdown") is None:
                host.work()
                continue
            message = channel.read()
            if message is None:
                return 1  # the engine is gone
            kind = message.get("type")
            if kind == "case":
                host.case(message)
            elif kind == "configure":
                host.configure(message)
            elif kind == "shutdown":
                channel.send(type="bye")
                return 0
            else:
                raise HostError("a message of unknown type %r" % kind)
    except Restart as why:
        channel.send(type="bye", restart=str(why))
        return 0
    except HostError as err:
        channel.send(type="bye", restart=str(err))
        return 1
    finally:
        host.close()


def descriptors(args):
    """Those of the environment, or of args: launchers pass them on as flags."""
    fd_in, fd_out = int(os.environ.get("AICPLAN_FD_IN", 3)), int(os.environ.get("AICPLAN_FD_OUT", 4))
    if not args:
        return fd_in, fd_out
    import argparse

    parser = argparse.ArgumentParser(description="aicplan's Python worker; started by aicplan, not by hand")
    parser.add_argument("--fd-in", type=int, default=fd_in)
    parser.add_argument("--fd-out", type=int, default=fd_out)
    parsed = parser.parse_args(args)
    return parsed.fd_in, parsed.fd_out


def main():
    keep()
    fd_in, fd_out = descriptors(sys.argv[1:])
    try:
        channel = Channel(fd_in, fd_out)
    except OSError as err:
        if err.errno != errno.EBADF:
            raise
        print("aicplan worker: descriptors %d and %d are not open: workers are started by aicplan, not by hand" % (fd_in, fd_out), file=sys.stderr)
        return 2
    del sys.argv[1:]  # collectors look for flags of their own runner there
    faulthandler.enable()
    # The engine sends it to a worker that hangs, before it kills it.
    faulthandler.register(signal.SIGQUIT, chain=True)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine decides what an interrupt ends
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")
    os.environ["PYTHONUNBUFFERED"] = "1"  # for children of collectors: the log of a killed worker has what they printed
    try:
        code = serve(channel)
    except BrokenPipeError:
        code = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    # Threads and libraries of the op must not keep a worker alive after its last message.
    os._exit(code)
