import contextlib
import types
import unittest

from aicplan_host.offering import Offers


class Target:
    """A prepared case that notes when it is asked for something."""

    gpu, per_launch, used_graph, forms = True, 1, True, ()

    def __init__(self, notes):
        self._note = notes.append
        self.cuda = types.SimpleNamespace(taken=lambda: 0, clock=lambda: self._note("clock") or 1980.0)

    def queue(self, executions):
        self._note("queue")
        return 0

    def drain(self):
        self._note("drain")

    def varied(self):
        self._note("vary")
        return ()

    def close(self):
        self._note("close")


class OffersTest(unittest.TestCase):
    def test_every_use_of_the_device_has_a_deadline(self):
        """A reply ends the deadline of a case, and a start begins the next one: a device that hangs
        between the two would be waited for without end."""
        notes = []
        done = {"what": "done", "ended": [{"handle": 1, "columns": {"latency": 1.0}}]}
        commands = [{"what": what, "handle": 1} for what in ("clock", "vary", "queue", "drain")] + [done]

        def send(**message):
            notes.append(message.get("what") or message["type"])

        offers = Offers(send, lambda cases: commands.pop(0))
        with contextlib.ExitStack() as stack:
            stack.enter_context(offers.case("op", 7))
            self.assertEqual(offers.measure(Target(notes), {}), {"latency": 1.0})
        self.assertEqual(notes[:2], ["prepared", "ready"])
        uses = [[at, "start", what] for at, what in zip(["ready"] + ["reply"] * 4, ["clock", "vary", "queue", "drain", "close"])]
        self.assertEqual([notes[i : i + 3] for i in range(1, len(notes) - 2, 3)], uses)


if __name__ == "__main__":
    unittest.main()
