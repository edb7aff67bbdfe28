"""Tests of the names of kernels: python3 -m unittest discover, in cudaops/pyhost/host."""

import json
import unittest
from unittest import mock

from aicplan_host import cuda, joining
from aicplan_host.kernels import GRAPH_NODE, KERNEL_NODE, LONGEST, demangled, kernels_of


class Driver:
    """A driver with graphs as lists of nodes: a kernel's name as bytes, another graph, or None."""

    def __init__(self, graphs, error=0):
        self.graphs, self.nodes, self.error = graphs, [], error

    def _set(self, reference, value):
        reference._obj.value = value

    def cuGraphGetNodes(self, graph, nodes, number):
        of = self.graphs[graph.value]
        if nodes is None:
            self._set(number, len(of))
            return self.error
        for i, node in enumerate(of):
            self.nodes.append(node)
            nodes[i] = len(self.nodes)
        return 0

    def _node(self, node):
        return self.nodes[node.value - 1]

    def cuGraphNodeGetType(self, node, kind):
        of = self._node(node)
        self._set(kind, KERNEL_NODE if isinstance(of, bytes) else GRAPH_NODE if isinstance(of, int) else 2)
        return 0

    def cuGraphChildGraphNodeGetGraph(self, node, graph):
        self._set(graph, self._node(node))
        return 0

    def cuGraphKernelNodeGetParams_v2(self, node, params):
        params._obj.func, params._obj.kern = (0, node.value) if self._node(node).startswith(b"k") else (node.value, 0)
        return 0

    def cuFuncGetName(self, name, func):
        self._set(name, self._node(func))
        return 0

    cuKernelGetName = cuFuncGetName


class Kernels(unittest.TestCase):
    def test_launches_are_counted_by_name(self):
        driver = Driver({7: [b"gemm", None, 8, b"gemm"], 8: [b"kernel", b"gemm"]})
        self.assertEqual(json.loads(kernels_of(7, driver, bytes.decode)), {"gemm": 3, "kernel": 1})

    def test_a_graph_lives_until_its_kernels_are_read(self):
        driver = Driver({7: [b"gemm"]})

        class Graph:
            def raw_cuda_graph(self):
                return 7

            def __del__(self):
                driver.graphs.clear()

        device = cuda.Cuda.__new__(cuda.Cuda)
        device._record = lambda *arguments, **options: Graph()
        with mock.patch.object(cuda, "kernels_of", lambda graph: kernels_of(graph, driver, bytes.decode)):
            self.assertEqual(json.loads(device.kernels(None)), {"gemm": 1})

    def test_an_error_of_the_driver_is_raised(self):
        with self.assertRaisesRegex(RuntimeError, "cuGraphGetNodes returned CUDA error 400"):
            kernels_of(7, Driver({7: []}, 400), bytes.decode)

    def test_names_are_those_of_profilers(self):
        self.assertEqual(demangled(b"_Z4gateIiEvPT_"), "void gate<int>(int*)")
        self.assertEqual(demangled(b"_fwd_kernel"), "_fwd_kernel")
        long = b"_Z%d%sv" % (LONGEST, b"x" * LONGEST)
        self.assertEqual(demangled(long), long.decode())

    def test_a_row_of_several_measurements_has_the_kernels_of_all(self):
        measured = [{"latency": 1.0, "kernels": '{"a":1,"b":2}'}, {"latency": 0.5, "kernels": '{"b":1}'}]
        self.assertEqual(json.loads(joining.common(measured, 0.5)["kernels"]), {"a": 1, "b": 3})
        self.assertNotIn("kernels", joining.common(measured + [{"latency": 1.0}], 0.5))


if __name__ == "__main__":
    unittest.main()
