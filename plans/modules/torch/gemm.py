"""Dense matrix products through torch: y = x W^T, one linear layer.

gemm_dtype says what is multiplied: bfloat16 and float16 through cuBLAS, fp8
(e4m3, one scale per tensor, bfloat16 result) through scaled_mm, int8 (int32
result) through int_mm; sq, the tables' word for layers with 8-bit weights and
activations, is the same product. Quantising the activations is not part of it;
see quantize.py. Weights come from memory, the activation was just written and
may lie in the cache.
"""

_SAMPLED = 64  # rows and columns of the result that are checked


def gemm(gemm_dtype, m, n, k, bench):
    torch = bench.torch
    make = {"bfloat16": _plain, "float16": _plain, "fp8": _fp8, "int8": _int8, "sq": _int8}.get(gemm_dtype)
    if make is None:
        bench.unsupported("torch has no dense product for %s" % gemm_dtype)
    dtype, kernel, source = make(torch, bench, gemm_dtype, m, n, k)
    sets = bench.rotate(((n, k), dtype), keep=[((m, k), dtype)])
    if bench.verify:
        _check(torch, kernel, *sets[0])
    return bench(kernel, operands=sets, op_name="gemm", kernel_source=source)


def _plain(torch, bench, gemm_dtype, m, n, k):
    return getattr(torch, gemm_dtype), torch.nn.functional.linear, "torch_linear"


def _fp8(torch, bench, gemm_dtype, m, n, k):
    if n % 16 or k % 16:
        bench.unsupported("scaled_mm needs n and k in steps of 16")
    one = torch.ones((), device=bench.device)

    def kernel(x, w):
        return torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    return torch.float8_e4m3fn, kernel, "torch_scaled_mm"


def _int8(torch, bench, gemm_dtype, m, n, k):
    if m <= 16 or n % 8 or k % 8:
        bench.unsupported("int_mm needs more than 16 rows, and n and k in steps of 8")
    return torch.int8, lambda x, w: torch._int_mm(x, w.t()), "torch_int_mm"


def _check(torch, kernel, x, w):
    """Holds a sample of the result against products in float64. Integers must
    agree exactly; sums of k random products scatter as the root of k."""
    got = kernel(x, w)
    pick = torch.Generator().manual_seed(1)
    rows = torch.randperm(x.shape[0], generator=pick)[:_SAMPLED].to(x.device)
    cols = torch.randperm(w.shape[0], generator=pick)[:_SAMPLED].to(x.device)
    want = _wide(torch, x, rows) @ _wide(torch, w, cols).t()
    have = got[rows][:, cols].double()
    if not x.dtype.is_floating_point:
        torch.testing.assert_close(have, want, rtol=0, atol=0)
        return
    torch.testing.assert_close(have, want, rtol=2e-2, atol=0.05 * x.shape[1] ** 0.5)


def _wide(torch, matrix, at):
    # Indexing is not implemented for fp8: look at the bytes.
    raw = matrix.view(torch.uint8) if matrix.dtype.itemsize == 1 else matrix
    part = raw[at]
    return (part.view(matrix.dtype) if raw is not matrix else part).double()
