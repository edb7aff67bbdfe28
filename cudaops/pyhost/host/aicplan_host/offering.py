"""Cases that are prepared here and measured by the engine's instrument."""

import contextlib
import json
import os
import socket
import sys
import threading

from .errors import TRANSIENT, HostError, Stopped

EAGER = "a case runs without a graph"


class Offers:
    """Offers prepared cases to the instrument and runs its commands. Between two
    commands the next case may begin: it is prepared while those before it wait in
    their calls, and all of them are measured together."""

    def __init__(self, send, command):
        """send and command speak with the instrument; command(cases) returns None if
        something else has come: a case for a worker that had none."""
        self._send, self._command = send, command
        self.begin = None  # begins the next case
        self.trim = lambda: None  # gives back memory that is kept between cases
        self.memory = lambda: (0, 0, 0)  # bytes of the device: free, all, kept by this process
        self.waiting = list  # the cases that have not begun
        self.fills = lambda op: False  # whether a case of the op takes what memory the device has
        self.uuid = ""
        self.closed = ""  # why no case can begin now
        self.settled = lambda: None  # is called when offers have ended that nothing waits for
        self.broken = lambda seq, err: None  # is called if a visit to a case fails
        self.cold_seconds = 0.0  # cases up to so long may be measured cold
        self.depth = 0  # cases that wait in their calls
        self.op, self.seq = "", None  # of the innermost case
        self._taken = 0  # bytes of the device, when that began or was prepared last
        self._targets, self._failures, self._last = {}, {}, 0
        self._results = {}  # (columns, error) of offers that have ended
        self._running = False  # a command of the instrument is at work
        self._going = False  # the call at work prepares its next target once it may
        self._resumed = 0  # waits that a command has ended
        self._cuda = None  # of the targets
        self.relay = ""  # address at which forked processes report
        self._pid = os.getpid()

    @property
    def open(self):
        """Whether anything is prepared."""
        return bool(self._targets)

    @property
    def here(self):
        """Whether this process is the one that has the offers, and no fork of it."""
        return os.getpid() == self._pid

    @contextlib.contextmanager
    def case(self, op, seq):
        """Within it, what is offered belongs to this case."""
        outer, self.op, self.seq = (self.op, self.seq), op, seq
        self._note_memory()
        try:
            yield
        finally:
            self.op, self.seq = outer
            self._note_memory()

    def offer(self, target, facts):
        """Offers a prepared target. Returns its handle."""
        if self._running:
            raise HostError("bench is called inside a function that bench measures; measure one of them")
        handle = self._add(target)
        if target.gpu:
            self._cuda = target.cuda
        self._send(
            what="prepared", handle=handle, op=self.op, gpu=target.gpu, quantum=target.per_launch,
            graph=target.used_graph, took=self._note_memory(), **facts
        )
        return handle

    def measure(self, target, facts):
        """The columns of a prepared target's measurement; returns when they are there."""
        if not self.here:
            return connected(self.relay).measure(target, facts)
        handle, seq = self.offer(target, facts), self.seq
        # Without a graph Python runs at every execution, and has to find what its own
        # call has set: such a call is the innermost one until it is measured.
        closed, self.closed = self.closed, self.closed or ("" if target.used_graph else EAGER)
        self.depth += 1
        try:
            while handle not in self._results:
                self.next()
            self._start(seq)
        finally:
            self.depth -= 1
            if self.closed == EAGER:
                self.closed = closed
            self._drop(handle)
        return self.result(handle)

    def go(self):
        """Returns when the call at work may prepare one more target."""
        going, self._going, seq = self._going, True, self.seq
        try:
            while (self.next() or {}).get("what") != "next":
                pass
        finally:
            self._going = going
        self._start(seq)

    def ended(self, handle):
        return handle in self._results

    def result(self, handle):
        """The columns of an offer that has ended. Raises why it has none."""
        columns, error = self._results.pop(handle)
        failure = self._failures.pop(handle, None)
        if error and error.get("own") and failure is not None:
            raise failure
        if error:
            raise HostError(error.get("message", ""), error.get("class") or TRANSIENT)
        return columns

    def next(self):
        """Waits for a command that begins or ends a case, and runs those before it."""
        if self._cuda is not None:
            # Work that is still queued would run beside the first visits. What fails in it shows in a later call.
            with contextlib.suppress(Exception):
                self._cuda.torch.cuda.synchronize()
        free, total, kept = self.memory()
        cases = self.waiting()
        self._send(
            what="ready", free=free, total=total, kept=kept, waiting=len(cases), next_op=cases[0]["op"] if cases else "",
            closed=self.closed, short=cases[0].get("short", 0) if cases else 0, uuid=self.uuid, going=self._going, call_op=self.op,
            commands=self._resumed, fills=bool(cases) and self.fills(cases[0]["op"]),
        )
        while True:
            command = self._command(cases)
            if command is None:
                return None
            if command["what"] in ("done", "trim", "next"):
                self._resumed += 1
            if command["what"] == "done":
                for end in command["ended"]:
                    handle = end["handle"]
                    self._results[handle] = end.get("columns"), end.get("error")
                    if end.get("later"):
                        self._drop(handle)
                self.settled()
                return command
            if command["what"] == "trim":
                self.trim()
                return None
            if command["what"] == "next":
                self.cold_seconds = command.get("cold", 0.0)
                if not self._going:
                    self.begin(command.get("alone", False))
                return command
            self._run(command)

    def _drop(self, handle):
        target, _ = self._targets.pop(handle)
        for form in target.forms:
            self._targets.pop(form, None)
        target.close()

    def _add(self, target):
        self._last += 1
        self._targets[self._last] = (target, self.seq)
        return self._last

    def reached(self):
        """The bytes that a case could take at most which has just run out of memory; at least 1."""
        grown = max(0, self._cuda.taken() - self._taken) if self._cuda is not None else 0
        return max(1, grown + self.memory()[0])

    def _note_memory(self):
        """How many bytes the process has taken since it was asked last."""
        before = self._taken
        if self._cuda is not None:
            self._taken = self._cuda.taken()
        return max(0, self._taken - before)

    def _run(self, command):
        what, handle = command["what"], command.get("handle")
        self._running = True
        try:
            answer = self._work(what, handle, command)
        except (Exception, Stopped) as err:  # the instrument waits for a reply
            if handle in self._targets:
                self.broken(self._targets[handle][1], err)
                self._failures[handle] = err
                for at, (target, _) in self._targets.items():
                    if handle in target.forms:
                        self._failures[at] = err
            answer = {"failed": True, "text": "%s: %s" % (type(err).__name__, err)}
        finally:
            self._running = False
        self._send(what="reply", **answer)

    def _work(self, what, handle, command):
        if what == "clock":
            self._start(list(self._targets.values())[-1][1] if self._targets else None)
            return {"mhz": self._cuda.clock()}
        target, seq = self._targets[handle]
        self._start(seq)  # whatever follows has a deadline
        if what == "burst":
            words = ("soak", "warm", "executions", "blocks", "plain", "busy", "stop")
            blocks, mhz, bound = target.burst(*(command.get(word, 0) for word in words))
            return {"blocks": blocks, "mhz": mhz, "bound": bound}
        if what == "call":
            target.calls(command["executions"])
            return {}
        if what == "queue":
            return {"done": target.queue(command.get("executions", 0))}
        if what == "drain":
            target.drain()
            return {}
        if what == "vary":
            target.forms = [self._add(form) for form in target.varied()]
            return {"handles": target.forms}
        raise HostError("the instrument asks for %r" % what)

    def _start(self, seq):
        if seq is not None:
            self._send(type="start", seq=seq)


class Relay:
    """Passes messages on between the instrument and processes that a case has started:
    they measure in their own process, and have no part in the worker's pipe."""

    def __init__(self, channel, seq, folder):
        """seq() is the number of the case at work. Sockets that need a file lie in folder."""
        self._channel, self._seq, self._last = channel, seq, 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # On Linux a name without a file: nothing is left behind, however this process ends.
        linux = sys.platform.startswith("linux")
        self.name = "\0aicplan-%d-%s" % (os.getpid(), os.urandom(6).hex()) if linux else os.path.join(folder, "relay")
        self._socket.bind(self.name)
        self._socket.listen(64)
        threading.Thread(target=self._accept, name="aicplan-relay", daemon=True).start()

    def _accept(self):
        while True:
            connection, _ = self._socket.accept()
            self._last += 1
            threading.Thread(target=self._serve, args=(connection, self._last), daemon=True).start()

    def _serve(self, connection, number):
        """A child sends, then waits for a command, in turn."""
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                self._channel.send(**{**message, "type": "measure", "from": number})
                if message.get("what") == "prepared":
                    continue
                command = self._channel.command(number)
                if command is None:
                    break
                if self._seq() is not None:
                    self._channel.send(type="start", seq=self._seq())
                connection.sendall((json.dumps(command) + "\n").encode("ascii"))
        self._channel.send(type="measure", what="leave", **{"from": number})


def connected(name):
    """The Offers of a process that a case has started."""
    connection = None

    def opened():
        nonlocal connection
        if connection is None:
            raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            raw.connect(name)
            connection = raw.makefile("rwb")
        return connection

    def send(**message):
        if message.get("type") == "start":
            return
        opened().write((json.dumps(message, allow_nan=False) + "\n").encode("ascii"))
        opened().flush()

    def command(_):
        line = opened().readline()
        if not line:
            raise HostError("the worker has closed its end")
        return json.loads(line)

    offers = Offers(send, command)
    offers.closed = "a process of a case"
    return offers
