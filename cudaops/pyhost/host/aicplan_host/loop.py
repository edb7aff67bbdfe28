"""The conversation with the engine, from hello to bye."""

import argparse
import contextlib
import errno
import faulthandler
import os
import signal
import sys
import traceback

from .channel import Channel
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
    try:
        while True:
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


def main():
    parser = argparse.ArgumentParser(description="aicplan's Python worker; started by aicplan, not by hand")
    parser.add_argument("--fd-in", type=int, default=int(os.environ.get("AICPLAN_FD_IN", 3)))
    parser.add_argument("--fd-out", type=int, default=int(os.environ.get("AICPLAN_FD_OUT", 4)))
    args = parser.parse_args()
    try:
        channel = Channel(args.fd_in, args.fd_out)
    except OSError as err:
        if err.errno != errno.EBADF:
            raise
        print("aicplan worker: descriptors %d and %d are not open: workers are started by aicplan, not by hand" % (args.fd_in, args.fd_out), file=sys.stderr)
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
    try:
        code = serve(channel)
    except BrokenPipeError:
        code = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    # Threads and libraries of the op must not keep a worker alive that has said bye.
    os._exit(code)
