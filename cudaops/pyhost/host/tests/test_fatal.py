"""Which errors cost a worker its process, and which are for lack of memory."""

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

    def test_memory(self):
        for text, lacks in {
            "CUDA out of memory. Tried to allocate 20.00 GiB": True,
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.": True,
            "the memory of the row is not enough": False,
        }.items():
            self.assertEqual(bool(host._MEMORY.search(text)), lacks, text)


if __name__ == "__main__":
    unittest.main()
