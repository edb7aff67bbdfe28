"""Ports of process groups: one of its own for every group of one.

Collectors measure one rank and still start torch.distributed, at a port that they
compute from the device's number or draw by lot. Two workers on one machine come to
the same one, and so do two containers that share a network. Nobody else has to find
a group of one, so it takes whichever port is free.
"""

import contextlib
import errno
import functools
import importlib.machinery
import inspect
import os
import re
import socket
import sys

MODULE = "torch.distributed.distributed_c10d"
ATTEMPTS = 5
# Of the ports that are kept: those of servers, and marked as theirs are. See
# cudaops/server/port.go.
FIRST = 20000
TRIES = 200
MARK = "\0aicplan-port-%d"
TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)


def own_ports():
    """Gives process groups of one that this process starts a free port, whether
    torch is imported already or not."""
    if MODULE in sys.modules:
        _wrap(sys.modules[MODULE])
    elif not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


def free_port(port=0):
    """A free port, or the given one. Raises OSError if the given port is taken."""
    if socket.has_dualstack_ipv6():
        try:
            with socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True) as s:
                return s.getsockname()[1]
        except OSError as err:
            if err.errno == errno.EADDRINUSE:
                raise
            # Otherwise it is compiled in, and switched off on this machine.
    with socket.create_server(("", port)) as s:
        return s.getsockname()[1]


@contextlib.contextmanager
def kept_port():
    """A port for a group whose first rank listens only when it has imported a
    framework. Until the block ends the kernel gives it to no connection and to no
    listener that asks for any, and no other aicplan on this machine gives it away."""
    ports = range(FIRST, _kernel_ports())
    begin = int.from_bytes(os.urandom(4), "big")
    for n in range(min(TRIES, len(ports))):
        port = ports[(begin + n) % len(ports)]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mark:
            try:
                mark.bind(MARK % port)
                free_port(port)
            except OSError:
                continue
            yield port
            return
    yield free_port()


def _kernel_ports():
    """The first ephemeral port of the kernel, 0 if unknown."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
            return int(f.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


class _Watch:
    """Waits for torch's own import of the module."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            _wrap(module)

        spec.loader.exec_module = exec_module
        return spec


def _wrap(module):
    real = getattr(module, "init_process_group", None)
    if not callable(real) or hasattr(real, "aicplan_ports"):
        return
    signature = inspect.signature(real)

    @functools.wraps(real)
    def init_process_group(*args, **kwargs):
        try:
            asked = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return real(*args, **kwargs)  # it says what is wrong with them
        method = asked.get("init_method") or "env://"
        if asked.get("store") is not None or _ranks(asked, method) != 1:
            return real(*args, **kwargs)
        left = ATTEMPTS
        while True:
            changed = _with_port(method, free_port())
            if changed is None:
                return real(*args, **kwargs)
            call = signature.bind(*args, **kwargs)
            if changed != method:
                call.arguments["init_method"] = changed
            try:
                return real(*call.args, **call.kwargs)
            except Exception as err:
                # Somebody may take the port before torch does.
                left -= 1
                if not left or not TAKEN.search(str(err)):
                    raise

    init_process_group.aicplan_ports = True
    module.init_process_group = init_process_group
    package = sys.modules.get("torch.distributed")
    if getattr(package, "init_process_group", None) is real:
        package.init_process_group = init_process_group


def _ranks(asked, method):
    """How many ranks the group will have, 0 if unknown."""
    import urllib.parse  # late: it takes longer than the other modules, and few ops have a method

    query = urllib.parse.parse_qs(urllib.parse.urlsplit(method).query)
    for found in (asked.get("world_size"), query.get("world_size", [None])[0], os.environ.get("WORLD_SIZE")):
        try:
            number = int(found)
        except (TypeError, ValueError):
            continue
        if number > 0:
            return number
    return 0


def _with_port(method, port):
    """The method at another port, None for one that has no port of its own."""
    import urllib.parse

    parts = urllib.parse.urlsplit(method)
    if parts.scheme == "env" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        os.environ["MASTER_PORT"] = str(port)
        return method
    if parts.scheme == "tcp" and parts.port:
        return parts._replace(netloc=parts.netloc.rpartition(":")[0] + ":%d" % port).geturl()
    return None
