"""Which errors cost a worker its process."""

import unittest

from aicplan_host import host


class FatalTest(unittest.TestCase):
    def test_words(self):
        for text, fatal in {
            "CUDA error: an illegal memory access was encountered": True,
            "CUDA error: an illegal instruction was encountered": True,
            "CUDA driver error: context is destroyed": True,
            "CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx": True,
            "an illegal combination of topk and groups": False,
            "the rendering context is destroyed by close()": False,
            "m=3 is illegal": False,
        }.items():
            self.assertEqual(bool(host._FATAL.search(text)), fatal, text)


if __name__ == "__main__":
    unittest.main()
