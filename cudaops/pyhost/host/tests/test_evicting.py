import contextlib
import types
import unittest
from unittest import mock

from aicplan_host import evicting
from aicplan_host.evicting import Evictor


class Torch:
    """As much of torch as has inference mode."""

    float32 = "float32"
    inference = False

    @contextlib.contextmanager
    def inference_mode(self, mode=True):
        before, self.inference = self.inference, mode
        try:
            yield
        finally:
            self.inference = before

    def zeros(self, shape, **_):
        return types.SimpleNamespace(shape=shape, inference=self.inference)

    def sum(self, data, dim, out):
        if out.inference and not self.inference:
            raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed.")


class Evicting(unittest.TestCase):
    def test_one_evictor_serves_cases_in_and_out_of_inference_mode(self):
        for first in (True, False):
            torch = Torch()
            with torch.inference_mode(first):
                evict = Evictor(types.SimpleNamespace(torch=torch, l2=1 << 20, device="cuda:0"))
                self.assertEqual(torch.inference, first)
                evict()
            with torch.inference_mode(not first):
                evict()

    def test_a_percentile_below_the_read_is_none(self):
        def measured(latency, p10):
            stats = {"samples": 8, "rel_stdev": 0.02, "p90": 1.02 * latency, "passes": 2, "pass_spread": 0.01, "executions": 16, "block_ms": 1.0}
            return dict(stats, latency=latency, p10=p10)

        cuda = types.SimpleNamespace(evictor=lambda: None)
        for p10, want in ((0.0214, 0.0014), (0.0199, None)):
            hot = dict(measured(0.001, 0.0009), used_cuda_graph=True)
            measure = mock.Mock(side_effect=[measured(0.0215, p10), measured(0.0200, 0.0198)])
            with mock.patch.object(evicting, "CudaTarget"):
                got = evicting.cold(cuda, lambda: None, hot, measure)
            self.assertEqual((got["cache"], got["latency_hot"]), ("cold", 0.001))
            self.assertAlmostEqual(got["latency"], 0.0015)
            if want is None:
                self.assertIsNone(got["p10"])
            else:
                self.assertAlmostEqual(got["p10"], want)

    def test_power_is_of_the_state_of_the_latency(self):
        def measured(latency, **power):
            stats = {"samples": 8, "rel_stdev": 0.02, "p10": latency, "p90": latency, "passes": 2, "pass_spread": 0.01, "executions": 16, "block_ms": 1.0}
            return dict(stats, latency=latency, **power)

        def powered(latency, watts):
            return measured(
                latency, power=watts, power_limit=700.0, power_method="energy", power_seconds=1.1, energy=watts * latency / 1e3, power_latency=latency
            )

        cuda = types.SimpleNamespace(evictor=lambda: None)
        for alone, want in ((powered(0.020, 500.0), 300.0), (powered(0.020, 900.0), None), (measured(0.020), None)):
            hot = dict(measured(0.001), used_cuda_graph=True)
            both = powered(0.030, (500.0 * 0.020 + 300.0 * 0.010) / 0.030)
            with mock.patch.object(evicting, "CudaTarget"):
                got = evicting.cold(cuda, lambda: None, hot, mock.Mock(side_effect=[both, alone]))
            self.assertEqual(got["cache"], "cold")
            if want is None:
                self.assertFalse({"power", "energy", "power_latency"} & set(got), got)
                continue
            self.assertAlmostEqual(got["power"], want)
            self.assertAlmostEqual(got["energy"], want * 0.010e-3)
            self.assertAlmostEqual(got["power_latency"], 0.010)
            self.assertEqual((got["power_limit"], got["power_method"], got["power_seconds"]), (700.0, "energy", 1.1))

    def test_what_stays_hot(self):
        row = {"used_cuda_graph": True, "latency": 0.05}
        self.assertTrue(evicting.applies(row, False))
        self.assertFalse(evicting.applies(row, True))
        self.assertFalse(evicting.applies(dict(row, used_cuda_graph=False), False))
        self.assertFalse(evicting.applies(dict(row, latency=0.21), False))


if __name__ == "__main__":
    unittest.main()
