import json
import os
import unittest

from aicplan_host.channel import Channel
from aicplan_host.errors import MAX_TEXT, HostError, clip


class ChannelTest(unittest.TestCase):
    def setUp(self):
        theirs, self.to = os.pipe()
        self.back, ours = os.pipe()
        self.channel = Channel(theirs, ours)
        self.addCleanup(self.channel._close)
        self.addCleanup(os.close, self.back)

    def say(self, *messages):
        for message in messages:
            os.write(self.to, json.dumps(message).encode() + b"\n")

    def heard(self):
        return [json.loads(line) for line in os.read(self.back, 1 << 20).splitlines()]

    def test_messages_in_pieces(self):
        os.write(self.to, b'{"type": "ca')
        os.write(self.to, b'se"}\n{"type":')
        self.assertEqual(self.channel.read(), {"type": "case"})
        os.write(self.to, b' "shutdown"}\n')
        os.close(self.to)
        self.assertEqual(self.channel.read(), {"type": "shutdown"})
        self.assertIsNone(self.channel.read())

    def test_cases_wait_for_an_answer(self):
        self.say({"type": "case", "seq": 1}, {"type": "case", "seq": 2}, {"type": "answer", "met": True}, {"type": "shutdown"})
        self.assertTrue(self.channel.ask(what="requires", version="1", specifier=">=1")["met"])
        self.assertEqual([self.channel.read().get("seq") for _ in range(3)], [1, 2, None])
        self.assertEqual(self.heard(), [{"type": "ask", "what": "requires", "version": "1", "specifier": ">=1"}])
        os.close(self.to)

    def test_an_answer_that_is_an_error(self):
        self.say({"type": "answer", "error": "'x' is not a version"})
        with self.assertRaisesRegex(HostError, "'x' is not a version"):
            self.channel.ask(what="requires", version="x", specifier=">=1")
        os.close(self.to)
        with self.assertRaisesRegex(HostError, "closed its end"):
            self.channel.ask(what="requires", version="x", specifier=">=1")

    def test_long_texts_are_clipped(self):
        text = clip("b" * (MAX_TEXT + 5) + "end")
        self.assertIn("[... 8 characters left out ...]", text)
        self.assertTrue(text.endswith("end"))
        os.close(self.to)


if __name__ == "__main__":
    unittest.main()
