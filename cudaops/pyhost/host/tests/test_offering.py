import contextlib
import types
import unittest

from aicplan_host.offering import Offers
from aicplan_host.targets import Failed, visit_in_a_row


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

    def in_a_row(self, lost):
        """Makes three visits, of which the one with the number lost fails. Returns what is noted, and the visits' results or the number."""
        notes = []

        def wait(i):
            notes.append("wait %d" % i)
            if i == lost:
                raise RuntimeError("lost")

        gate = types.SimpleNamespace(pause=lambda us: notes.append("rest %d" % us), stamped=lambda i: i != 3, open=lambda: None)
        target = types.SimpleNamespace(
            cuda=types.SimpleNamespace(gate=gate, ends=[types.SimpleNamespace(synchronize=lambda i=i: wait(i)) for i in range(3)]),
            _scope=contextlib.nullcontext, launches=lambda *shape: 2,
            queue_visit=lambda visit, *shape: notes.append("queue %d" % visit), visited=lambda visit, *shape: ([visit], 1980.0),
        )
        try:
            return notes, visit_in_a_row([(target, 1, 1, 1)] * 3, 200, lambda i: notes.append("start %d" % i))
        except Failed as err:
            return notes, err.visit

    def test_the_visit_that_the_device_is_at_is_to_blame(self):
        """The host is ahead of the device when it hangs or loses its context."""
        queued = ["start 0", "queue 0", "start 1", "rest 200", "queue 1", "start 2", "rest 200", "queue 2"]
        waited = ["start 0", "wait 0", "start 1", "wait 1", "start 2", "wait 2"]
        self.assertEqual(self.in_a_row(None), (queued + waited, [([i], 1980.0) for i in range(3)]))
        self.assertEqual(self.in_a_row(1), (queued + waited[:4], 1))


if __name__ == "__main__":
    unittest.main()
