"""The kernels that a captured graph launches, by name."""

import ctypes
import json

KERNEL_NODE, GRAPH_NODE = 0, 4
LONGEST = 1024  # profilers leave longer names as they are


class _Params(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("func", ctypes.c_void_p), ("dims", ctypes.c_uint * 6), ("shared", ctypes.c_uint), ("params", ctypes.c_void_p),
        ("extra", ctypes.c_void_p), ("kern", ctypes.c_void_p), ("ctx", ctypes.c_void_p),
    ]


def kernels_of(graph, driver=None, demangle=None):
    """JSON text with the kernels of a graph, given by its handle: {name: launches}.
    Raises RuntimeError if the driver reports an error."""
    driver, demangle = driver or ctypes.CDLL("libcuda.so.1"), demangle or demangled
    counts = {}
    _add(driver, ctypes.c_void_p(graph), demangle, counts)
    return json.dumps(dict(sorted(counts.items())), separators=(",", ":"))


def _add(driver, graph, demangle, counts):
    number = ctypes.c_size_t()
    _call(driver.cuGraphGetNodes, graph, None, ctypes.byref(number))
    nodes = (ctypes.c_void_p * number.value)()
    _call(driver.cuGraphGetNodes, graph, nodes, ctypes.byref(number))

    for node in map(ctypes.c_void_p, nodes):
        kind = ctypes.c_int()
        _call(driver.cuGraphNodeGetType, node, ctypes.byref(kind))
        if kind.value == GRAPH_NODE:
            child = ctypes.c_void_p()
            _call(driver.cuGraphChildGraphNodeGetGraph, node, ctypes.byref(child))
            _add(driver, child, demangle, counts)
        if kind.value != KERNEL_NODE:
            continue

        params, name = _Params(), ctypes.c_char_p()
        _call(driver.cuGraphKernelNodeGetParams_v2, node, ctypes.byref(params))
        if params.func:
            _call(driver.cuFuncGetName, ctypes.byref(name), ctypes.c_void_p(params.func))
        else:
            _call(driver.cuKernelGetName, ctypes.byref(name), ctypes.c_void_p(params.kern))
        text = demangle(name.value)
        counts[text] = counts.get(text, 0) + 1


def _call(function, *arguments):
    error = function(*arguments)
    if error:
        raise RuntimeError("%s returned CUDA error %d" % (getattr(function, "__name__", "a driver function"), error))


def demangled(name):
    """A kernel's name as profilers write it."""
    text = name.decode()
    if len(name) > LONGEST:
        return text
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    out = library.__cxa_demangle(name, None, None, ctypes.byref(status))
    if status.value != 0 or not out:
        return text
    try:
        return ctypes.cast(out, ctypes.c_char_p).value.decode()
    finally:
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free(out)
