"""Rows on their way from a collector to the case that asked for them."""

import contextlib
import glob
import io
import json
import os
import threading

from .joining import Form, filled
from .rows import METRICS, column, number


class Sink:
    """Takes the rows that collectors log. In the worker they belong to the case
    at hand; in its child processes they go to a spool file that the worker
    reads when the call returns."""

    def __init__(self, spool=None):
        self.spool, self.rows, self.open = spool, [], False
        self.told = None  # is called with each row of a case that has several
        self.late = 0
        self.before = set()  # threads that are older than the case at hand
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def add(self, row, perf_filename):
        if os.getpid() != self._pid or self.spool:
            folder = self.spool or os.environ.get("AICPLAN_SPOOL")
            if not folder or not os.path.isdir(folder):
                return  # the case has ended
            line = json.dumps([os.path.basename(str(perf_filename)), row]) + "\n"
            with open(os.path.join(folder, "%d.jsonl" % os.getpid()), "a", encoding="ascii") as f:
                f.write(line)
            return
        with self._lock:
            if not self.open or self.stale():
                self.late += 1
                return
            self.rows.append((os.path.basename(str(perf_filename)), row))
            if self.told is not None and not isinstance(row.get("latency"), Form):
                self.told(*self.rows[-1])

    def stale(self):
        """Whether the thread that runs is one that an earlier case has left behind."""
        return threading.current_thread() in self.before

    def settle(self, measured):
        """Gives rows of the call at work the latencies that are there by now."""
        for i, (name, row) in enumerate(self.rows):
            form = row.get("latency")
            if isinstance(form, Form) and form.ready(measured):
                self.rows[i] = name, filled(row, measured)
                if self.told is not None:
                    self.told(*self.rows[i])


def read_spool(folder):
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path, encoding="ascii") as f:
            for line in f:
                if line.endswith("\n"):  # a child may have died in the middle of its last line
                    rows.append(tuple(json.loads(line)))
    return rows


# Columns that hold text whatever it looks like.
TEXTS = ("op_name", "kernel_source")
LABELS = ("framework", "version", "device")


def perf_files(folder, end=""):
    """The perf files in folder and in the folders that a collector made there."""
    inside = os.path.join(glob.escape(folder), "%s*_perf.txt" + end)
    return sorted(glob.glob(inside % "") + glob.glob(inside % "*/"))


def remove_perf_files(folder, others=()):
    """Removes them, but for the others."""
    for path in perf_files(folder, "*"):  # their locks too
        if path not in others:
            with contextlib.suppress(OSError):
                os.unlink(path)


def read_perf_files(folder, others=()):
    """Rows of perf files that a process without our helper wrote in folder, but for
    the others, and what is wrong with each line that is no row."""
    rows, faults = [], []
    for path in perf_files(folder):
        if path in others:
            continue
        with open(path, newline="", encoding="utf-8", errors="backslashreplace") as f:
            text = f.read()
        # A process may have died in the middle of its last line.
        whole = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
        raw = []
        for line, row, wrong in _records(whole):
            wrong = wrong or _no_number(row)
            if wrong:
                faults.append("%s:%d: %s" % (os.path.basename(path), line, wrong))
            # Two processes that begin a file at once both write its header.
            elif any(name != value for name, value in row.items()):
                raw.append(row)
        names = [k for k in (raw[0] if raw else {}) if k and k not in LABELS]
        columns = {k: [row[k] or None for row in raw] if k in TEXTS else column([row[k] for row in raw]) for k in names}
        for i, row in enumerate(raw):
            values = {k: columns[k][i] for k in names}
            values["logged_version"] = row.get("version", "")
            rows.append((os.path.basename(path), values))
    return rows, faults


def _records(text):
    """(line, row, what is wrong with it) of each record of a CSV text. If a quote that is
    not closed joins lines, the lines after the first are read on their own."""
    import csv

    lines, header, at = list(io.StringIO(text, newline="")), None, 0
    reader, begin = csv.reader(lines), 0
    while True:
        try:
            fields, wrong = next(reader), ""
        except StopIteration:
            return
        except csv.Error as err:
            fields, wrong = (), str(err)
        line, at = at, begin + reader.line_num
        if header is None and fields:
            header = fields
            continue
        if not fields and not wrong:
            continue
        if not wrong and len(fields) != len(header):
            wrong = "it has %d fields and the header has %d" % (len(fields), len(header))
        if wrong:
            wrong += ": %.200r" % lines[line].rstrip("\r\n")
            at = begin = line + 1
            reader = csv.reader(lines[at:])
        yield line + 1, None if wrong else dict(zip(header, fields)), wrong


def _no_number(row):
    """What is wrong with a row whose metric is no number, else an empty text. The names
    of a header are none."""
    for name in METRICS:
        text = row.get(name) or ""
        if text and text != name and isinstance(number(text), str):
            return "%s is %.80r, which is no number" % (name, text)
    return ""
