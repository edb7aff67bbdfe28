import base64
import os
import pathlib
import tempfile
import unittest

from aicplan_host.attaching import LIMIT, Attachments
from aicplan_host.errors import HostError


class AttachingTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.spool = os.path.join(self.folder.name, "spool")  # made when it is needed
        self.attachments = Attachments(self.spool)

    def test_small_ones_travel_in_the_message(self):
        self.attachments.add("log.txt", "h\u00e9", "text/plain")
        self.attachments.add("raw", b"\x00\xff", "application/octet-stream")
        got = self.attachments.take()["attachments"]
        self.assertEqual([(a["name"], a["media_type"], base64.b64decode(a["data"])) for a in got],
                         [("log.txt", "text/plain", "h\u00e9".encode()), ("raw", "application/octet-stream", b"\x00\xff")])
        self.assertEqual(self.attachments.take(), {})  # the next case has none
        self.assertFalse(os.path.exists(self.spool))

    def test_large_ones_and_files_are_files(self):
        source = pathlib.Path(self.folder.name, "trace.json")
        source.write_bytes(b"{}")
        self.attachments.add("trace.json", source, "application/json")
        self.attachments.add("big", b"x" * (LIMIT + 1), "application/octet-stream")
        for a, want in zip(self.attachments.take()["attachments"], (b"{}", b"x" * (LIMIT + 1))):
            self.assertEqual(os.path.basename(a["file"]), a["file"])
            self.assertEqual(pathlib.Path(self.spool, a["file"]).read_bytes(), want)
        self.assertTrue(source.exists())

    def test_what_cannot_be_kept_is_said(self):
        self.attachments.add("once", b"", "text/plain")
        for name, content, part in (
            ("once", b"", "already"), ("a/b", b"", "without folders"), ("..", b"", "without folders"), ("", b"", "without folders"),
            ("n", 3, "is a int"), ("gone", pathlib.Path(self.folder.name, "gone"), "cannot be read"),
        ):
            with self.assertRaisesRegex(HostError, part):
                self.attachments.add(name, content, "text/plain")
        with self.assertRaisesRegex(HostError, "no folder for files"):
            Attachments("").add("big", b"x" * (LIMIT + 1), "text/plain")
