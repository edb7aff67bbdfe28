import unittest

from aicplan_host.joining import Join, decimals


def measured(latency, **more):
    row = {"latency": latency, "samples": 5, "rel_stdev": 0.01, "p10": latency * 0.9, "p90": latency * 1.1}
    row.update({"used_cuda_graph": True, "executions": 10}, **more)
    return row


class JoiningTest(unittest.TestCase):
    def setUp(self):
        self.join = Join()

    def of(self, written):
        return self.join.of(float(written), written)

    def test_places(self):
        self.assertEqual([decimals(v) for v in ("0.1234", "2", "1.5e-03", 0.25, 0.1234, 0.123456789012)], [4, 0, 4, None, 4, None])

    def test_text_becomes_the_exact_number(self):
        self.join.measured(measured(0.01234567))
        latency, stats = self.of("0.0123")
        self.assertEqual((latency, stats["samples"], stats["used_cuda_graph"]), (0.01234567, 5, True))
        self.assertNotIn("latency", stats)

    def test_rows_belong_to_what_was_measured_before_them(self):
        first, second = measured(0.50001, samples=3), measured(0.50002, samples=4)
        self.join.measured(first)
        self.assertEqual(self.of("0.5000")[1]["samples"], 3)
        self.join.logged()
        self.join.measured(second)
        self.assertEqual(self.of("0.5000")[1]["samples"], 4)
        self.join.logged()
        # Timed by the collector itself: near to an earlier one and yet none of ours.
        self.join.start()
        self.assertEqual(self.of("0.5000"), (0.5, {}))

    def test_a_difference_of_measurements_that_say_no_deviation(self):
        # The collectors' own protocol is one mean: it has no samples to deviate.
        for latency in (0.5, 0.3):
            self.join.measured(measured(latency, rel_stdev=None, p10=None, p90=None, samples=None))
        latency, stats = self.of("0.2000")
        self.assertEqual((latency, stats["used_cuda_graph"], stats["executions"]), (0.2, True, 20))
        self.assertNotIn("rel_stdev", stats)
        self.assertNotIn("samples", stats)

    def test_two_of_a_kind_in_their_order(self):
        for samples in (3, 4):
            self.join.measured(measured(0.25, samples=samples))
        got = [self.of("0.2500")[1]["samples"] for _ in range(2)]
        self.assertEqual(sorted(got), [3, 4])

    def test_calls_in_one_measured_call(self):
        self.join.measured(measured(0.6))
        latency, stats = self.of(0.6 / 7)
        self.assertEqual((latency, stats["executions"]), (0.6 / 7, 70))
        self.assertAlmostEqual(stats["p90"], 0.66 / 7)

    def test_energy_and_time_are_of_one_call(self):
        whole = {"latency_hot": 0.4, "energy": 0.28, "power_latency": 0.7, "power": 400.0, "pass_spread": 0.02}
        self.join.measured(measured(0.6, **whole))
        _, stats = self.of(0.6 / 7)
        for name in ("latency_hot", "energy", "power_latency"):
            self.assertAlmostEqual(stats[name], whole[name] / 7, msg=name)
        self.assertEqual((stats["power"], stats["pass_spread"]), (400.0, 0.02))
        self.join.start()
        self.join.measured(measured(0.05, **whole))
        self.assertEqual({"latency_hot", "energy", "power_latency"} & set(self.of("0.0008")[1]), set())

    def test_a_rounding_of_several_quotients_stays_as_logged(self):
        self.join.measured(measured(0.05))
        latency, stats = self.of("0.0008")
        self.assertEqual(latency, 0.0008)
        self.assertEqual((stats["samples"], "p10" in stats), (5, False))

    def test_a_number_computed_from_one(self):
        self.join.measured(measured(0.5))
        latency, stats = self.of(0.123456789)
        self.assertEqual((latency, stats["rel_stdev"], stats["samples"]), (0.123456789, 0.01, 5))
        self.assertAlmostEqual(stats["p90"], 0.123456789 * 1.1)

    def test_a_difference_of_two(self):
        self.join.measured(measured(0.5, samples=3))
        self.join.measured(measured(0.3, used_cuda_graph=False))
        latency, stats = self.of(0.5 - 0.3)
        self.assertEqual((stats["samples"], stats["used_cuda_graph"], "p10" in stats), (3, False, False))
        self.assertAlmostEqual(stats["rel_stdev"], (0.005**2 + 0.003**2) ** 0.5 / 0.2)
        self.join.logged()
        self.assertEqual(self.of(0.3)[1]["samples"], 5)
        self.assertNotIn("rel_stdev", self.join.of(0.0, 0.0)[1])

    def test_a_slowdown_of_one_is_one_of_a_difference(self):
        for slow, want in (((False, False), False), ((False, True), True), ((None, True), True), ((None, False), None)):
            self.join.start()
            for latency, says in zip((0.5, 0.3), slow):
                self.join.measured(measured(latency, **({} if says is None else {"throttled": says})))
            self.assertIs(self.of(0.2)[1].get("throttled"), want)

    def test_graphs_have_no_launches(self):
        graph, eager, bound = {"used_cuda_graph": True}, {"used_cuda_graph": False}, {"launch_bound": True}
        free = dict(eager, launch_bound=False)
        for of, want in (
            ((graph, graph), None), ((graph, free), False), ((free, free), False), ((graph, dict(eager, **bound)), True),
            ((free, eager), None), ((dict(eager, **bound), free), True),
        ):
            self.join.start()
            for latency, flags in zip((0.5, 0.3), of):
                self.join.measured(measured(latency, **flags))
            self.assertIs(self.of(0.2)[1].get("launch_bound"), want)


if __name__ == "__main__":
    unittest.main()
