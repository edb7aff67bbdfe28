"""The failure classes, the errors that have one, and the text of both."""



COLLECTOR_BUG = "collector_bug"
UNSUPPORTED = "unsupported_config"
FRAMEWORK_BUG = "framework_bug"
RESOURCE = "resource_issue"
TRANSIENT = "transient"


MAX_TEXT = 256 << 10  # of a message or a traceback, in characters


class HostError(Exception):
    """A fault that the host itself found; its class is known."""

    def __init__(self, message, cls=COLLECTOR_BUG):
        super().__init__(message)
        self.cls = cls


class Unsupported(Exception):
    """Raised by op functions for a case that this device or version cannot do."""


class Restart(Exception):
    """Ends the process after the current case; the engine starts a fresh one."""


class Stopped(BaseException):
    """Ends a run whose rows are not wanted."""


class AtOnce(BaseException):
    """Ends a call that cannot go on without its latencies. Its case begins once more and waits for each."""


class Crowded(Exception):
    """Ends a case that ran out of memory beside others and is tried again. It needs more than
    short bytes of the device."""

    def __init__(self, message, short):
        super().__init__(message)
        self.short = short


def words(value):
    """The text of a value, also of one that fails to give it."""
    try:
        return str(value)
    except Exception as err:
        return "(its text cannot be made: %s)" % type(err).__name__[:200]


def clip(text):
    text = words(text)
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return text[:half] + "\n[... %d characters left out ...]\n" % (len(text) - MAX_TEXT) + text[-half:]
