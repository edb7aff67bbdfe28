"""Quantising activations to fp8 (e4m3) with one scale per tensor.

A case gives two rows: scale_matrix is the pass with a known scale, computescale
what finding the scale adds to it (never below zero: where the difference drowns
in the noise, it is nothing).
"""


def compute_scale(m, k, bench, quant_dtype="fp8"):
    torch = bench.torch
    if quant_dtype != "fp8":
        bench.unsupported("only fp8")
    kind = torch.float8_e4m3fn
    top = torch.finfo(kind).max
    known = torch.full((), 64.0, device=bench.device, dtype=torch.float32)

    def static(x):
        return (x * known.to(x.dtype)).clamp_(-top, top).to(kind)

    def dynamic(x):
        scale = top / x.abs().amax().float().clamp_min(1e-12)
        return (x * scale.to(x.dtype)).clamp_(-top, top).to(kind), scale

    sets = bench.rotate(((m, k), torch.bfloat16))
    if bench.verify:
        _check(torch, static, dynamic, sets[0][0], known, top)
    fixed = bench(static, operands=sets)
    found = bench(dynamic, operands=sets)
    shared = {"kernel_source": "torch_ops", "quant_dtype": quant_dtype}
    extra = dict(found, latency=max(0.0, found.latency - fixed.latency), op_name="compute_scale", **shared)
    for quantile in ("p10", "p90"):
        del extra[quantile]  # of the whole pass, not of the difference
    return [extra, dict(fixed, op_name="scale_matrix", perf_table="scale_matrix_perf", **shared)]


def _check(torch, static, dynamic, x, known, top):
    """Values must come back within one step of fp8 (an eighth of the value, or
    the smallest step); the found scale must be the exact one."""

    def close(quantised, scale):
        want = (x.double() * float(scale)).clamp(-top, top)
        torch.testing.assert_close(quantised.float().double(), want, rtol=0.07, atol=2**-9)

    close(static(x), known)
    quantised, scale = dynamic(x)
    assert abs(float(scale) * float(x.abs().max()) / top - 1) < 1e-6, "the scale does not map the largest value to %s" % top
    close(quantised, scale)
