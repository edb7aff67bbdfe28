import contextlib
import types
import unittest

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


if __name__ == "__main__":
    unittest.main()
