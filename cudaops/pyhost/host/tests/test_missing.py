"""Whom a package that is not installed is blamed on."""

import os
import tempfile
import unittest

from aicplan_host import collectors, functions, host


def fails(body):
    try:
        exec(body, {})
    except ImportError as err:
        return err


class MissingTest(unittest.TestCase):
    def test_class_and_words(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "collector", "acme"))
            worker = host.Host.__new__(host.Host)
            worker.package, worker.root, worker.paths, worker.index = "acme-fw", root, [], -1
            hosted = collectors.CollectorOp("x", {"module": "collector.acme.x", "run": "run"}, worker)
            own = functions.FunctionOp.__new__(functions.FunctionOp)
            for body, op, cls in (
                ("import nobody_has_this.deep", hosted, "framework_bug"),
                ("import nobody_has_this", own, "collector_bug"),
                ("import acme.missing", hosted, "collector_bug"),  # a part of the checkout
                ("import json.missing", hosted, "collector_bug"),  # another version of what is there
                ("from json import missing", hosted, "collector_bug"),
            ):
                got = worker.failure(fails(body), op)
                self.assertEqual(got["class"], cls, body)
                said = "lacks the Python package nobody_has_this, which acme-fw needs here; install it" in got["message"]
                self.assertEqual(said, cls == "framework_bug", body)


if __name__ == "__main__":
    unittest.main()
