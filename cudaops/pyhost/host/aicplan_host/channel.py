"""Messages to and from the engine: newline-delimited JSON over two descriptors."""

import collections
import contextlib
import fcntl
import json
import os
import resource
import select
import sys
import threading
import traceback

from .errors import HostError, clip


class Channel:
    """Messages to and from the engine.

    The descriptors are moved above the range that frameworks touch, closed on
    exec, and closed in forked children: a child that outlives the worker must
    not keep the pipe open. With descriptors 0 and 1 (a worker behind a
    launcher that passes no others) what the op prints goes to stderr instead.
    """

    def __init__(self, fd_in, fd_out):
        self._in = self._take(fd_in)
        self._out = self._take(fd_out)
        if fd_in == 0:
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
        if fd_out in (0, 1):
            os.dup2(2, 1)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pending = collections.deque()  # complete lines that were not read yet
        self._parts = []  # of a line that has not ended
        self._waiting = collections.deque()  # messages not yet taken
        self._arrived = threading.Condition()
        self._reading = self._ended = False
        os.register_at_fork(after_in_child=self._close)

    @staticmethod
    def _take(fd):
        # Above what ops open by number, and below the limit of the process.
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        floor = 200 if soft == resource.RLIM_INFINITY or soft > 400 else max(3, soft // 2)
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor)
        if fd > 2:
            os.close(fd)
        return moved

    def _close(self):
        for fd in (self._in, self._out):
            try:
                os.close(fd)
            except OSError:
                pass

    def owned(self):
        """False in a forked child, which has no part in the conversation."""
        return os.getpid() == self._pid

    def end_forked(self):
        """Ends a forked child that leaves the function of its case: what follows is the
        worker's, such as removing the rows that other children have logged."""
        if self.owned():
            return
        error = sys.exc_info()[1]
        code = (error.code or 0) if isinstance(error, SystemExit) else int(error is not None)
        if error is not None:
            traceback.print_exc()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)

    def read(self):
        """The next message for the worker's loop, or None when the engine has closed
        its end."""
        return self.take(lambda m: m.get("type") not in ("answer", "measure"))

    def ask(self, **question):
        """The engine's answer to a question. What arrives before it waits."""
        self.send(type="ask", **question)
        message = self.take(lambda m: m.get("type") == "answer")
        if message is None:
            raise HostError("the engine closed its end instead of answering")
        if message.get("error"):
            raise HostError(message["error"])
        return message

    def command(self, to=0):
        """The instrument's next command to the process with this number, or None."""
        return self.take(lambda m: m.get("type") == "measure" and m.get("to", 0) == to)

    def take(self, wanted):
        """The next message that wanted accepts; others wait. Threads may take messages
        at the same time: one of them reads for all."""
        while True:
            with self._arrived:
                for i, message in enumerate(self._waiting):
                    if wanted(message):
                        del self._waiting[i]
                        return message
                if self._ended:
                    return None
                if self._reading:
                    self._arrived.wait()
                    continue
                self._reading = True
            try:
                message = self._receive()
            finally:
                with self._arrived:
                    self._reading = False
                    self._arrived.notify_all()
            with self._arrived:
                if message is None:
                    self._ended = True
                else:
                    self._waiting.append(message)
                self._arrived.notify_all()

    def case(self):
        """The next case."""
        return self.take(lambda m: m.get("type") == "case")

    def first(self, *kinds):
        """The kind of the message of the worker's loop that is next, if it is among these."""
        with self._arrived:
            for message in self._waiting:
                if message.get("type") in ("case", *kinds):
                    return message["type"] if message["type"] in kinds else None
        return None

    def put_back(self, message):
        """Has a case be the next one again."""
        with self._arrived:
            self._waiting.appendleft(message)

    def cases(self):
        """The cases that wait, with those that have arrived by now."""
        with self._arrived:
            if not self._reading:
                while select.select([self._in], [], [], 0)[0]:
                    message = self._receive()
                    if message is None:
                        self._ended = True
                        break
                    self._waiting.append(message)
            return [m for m in self._waiting if m.get("type") == "case"]

    def _receive(self):
        if not self.owned():
            return None  # a child that C code forked would take cases from the worker
        # Chunks are joined once a line has ended: a long message costs its length.
        while not self._pending:
            chunk = os.read(self._in, 1 << 18)
            if not chunk:
                return None
            first, *others = chunk.split(b"\n")
            self._parts.append(first)
            for part in others:
                self._pending.append(b"".join(self._parts))
                self._parts = [part]
        return json.loads(self._pending.popleft())

    def send(self, **message):
        if not self.owned():
            return
        data = (json.dumps(message, allow_nan=False) + "\n").encode("ascii")
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[os.write(self._out, view) :]

    def log(self, level, text):
        self.send(type="log", level=level, text=clip(text))
