"""A decoder layer through torch, and the kernels between its products.

layer replays norm, qkv, attention, output, norm, gate and up, activation and
down of one rank without end, each layer on what the one before it has just
written: the layer that the rows of its parts have to add up to. Its column parts
names those rows: gemm of gemm.py, attention of attention.py and elementwise of
this file. There is no communication in it.
"""

import json
import math

_SETTLE_SECONDS = 2.0  # of which the last half is timed


def elementwise(kernel, num_tokens, hidden_size, bench):
    """rms_norm over hidden_size, or silu_and_mul from 2 * hidden_size to hidden_size.

    What is stated is what the kernel adds behind a matrix product that has just
    written its input: product and kernel together, less the product alone. Back
    to back with itself a kernel of a few microseconds finds its instructions and
    its weight in the caches, where a layer's products leave neither: it would be
    up to a third short. The reference protocol measures it back to back.

    The products before it must not be held back by the power cap: with the kernel
    between them they would run at a higher clock than alone, and what they gain
    would be missing from the row (up to a quarter of the kernel, on H200s). So the one
    whose weight passes through the caches has few rows, and a thin one writes the
    input where there are more."""
    torch = bench.torch
    kernels = {"rms_norm": (_rms_norm, hidden_size), "silu_and_mul": (_silu_and_mul, 2 * hidden_size)}
    if kernel not in kernels:
        bench.unsupported("no elementwise kernel %s; there are %s" % (kernel, ", ".join(sorted(kernels))))
    fn, width = kernels[kernel]
    kind = torch.bfloat16
    if bench.verify or bench.settings["protocol"] == "reference":
        sets = bench.rotate(keep=[((num_tokens, width), kind), ((hidden_size,), kind)], limit=1)
        if bench.verify:
            _check(torch, kernel, fn(torch, *sets[0]), *sets[0])
        if bench.settings["protocol"] == "reference":
            return bench(lambda x, weight: fn(torch, x, weight), operands=sets, kernel_source="torch")
    inner = max(64, -(-_PRODUCT_BYTES // (2 * width)) // 64 * 64)
    rows = min(num_tokens, _FEW_ROWS)
    sets = bench.rotate(
        ((hidden_size,), kind), ((width, inner), kind),
        keep=[((rows, inner), kind), ((num_tokens, _THIN), kind), ((width, _THIN), kind)],
    )
    linear = torch.nn.functional.linear

    def before(x, product, rest, thin):
        written = linear(x, product)
        return written if rows == num_tokens else linear(rest, thin)

    both = bench(
        lambda x, rest, thin, weight, product: fn(torch, before(x, product, rest, thin), weight),
        operands=sets, kernel_source="torch", method="in_chain",
    )
    alone = bench(lambda x, rest, thin, weight, product: before(x, product, rest, thin), operands=sets)
    return _less(both, alone)


_PRODUCT_BYTES = 32 << 20  # of the first product's weight: enough to pass through the caches
_FEW_ROWS = 64  # of it: few enough for memory to bound it
_THIN = 64  # what the product that writes more rows sums over


def _less(both, alone):
    """The measurement both without what alone takes."""
    took, whole = alone["latency"], both["latency"]
    if whole <= took:
        raise RuntimeError("the kernel is lost in the noise of the product before it: %g ms with it, %g ms without" % (whole, took))
    for column in ("latency", "p10", "p90"):
        both[column] -= took
    if both["rel_stdev"] is not None:
        both["rel_stdev"] *= whole / both["latency"]
    both["executions"] += alone["executions"]
    if both.get("energy") is not None and alone.get("energy") is not None:
        both["energy"] -= alone["energy"]
        both["power_latency"] -= alone["power_latency"]
        both["power"] = both["energy"] * 1e3 / both["power_latency"]
    return both


def layer(phase, batch_size, isl, cached, hidden_size, num_heads, num_key_value_heads, head_dim, intermediate_size, bench, model=""):
    """model is a name for people. phase prefill: batch_size prompts of isl tokens; decode: one token of each
    of batch_size requests with cached tokens, itself included."""
    torch = bench.torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if phase not in ("prefill", "decode"):
        bench.unsupported("phase %s; there are prefill and decode" % phase)
    length = isl if phase == "prefill" else 1
    tokens = batch_size * length
    kind = torch.bfloat16
    q_width, kv_width = num_heads * head_dim, num_key_value_heads * head_dim
    weights = [
        ((hidden_size,), kind), ((q_width + 2 * kv_width, hidden_size), kind), ((hidden_size, q_width), kind),
        ((hidden_size,), kind), ((2 * intermediate_size, hidden_size), kind), ((hidden_size, intermediate_size), kind),
    ]
    cache = [((batch_size, cached, num_key_value_heads, head_dim), kind)] * 2 if phase == "decode" else []
    sets = bench.rotate(*weights, *cache, keep=[((tokens, hidden_size), kind)])
    linear, grouped = torch.nn.functional.linear, num_heads != num_key_value_heads
    written = []  # by the layer before it in the graph

    def forward(x, norm1, qkv, out, norm2, gate_up, down, *kv):
        chained = torch.cuda.is_current_stream_capturing()
        if chained and written:
            x = written.pop()
        h = linear(_rms_norm(torch, x, norm1), qkv).view(batch_size, length, -1, head_dim)
        q, k, v = h.split([num_heads, num_key_value_heads, num_key_value_heads], dim=2)
        if kv:
            k, v = kv
        h = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=phase == "prefill", enable_gqa=grouped
        )
        h = linear(h.transpose(1, 2).reshape(tokens, q_width), out)
        h = linear(_rms_norm(torch, h, norm2), gate_up)
        h = linear(_silu_and_mul(torch, h, None), down)
        if chained:
            written.append(h)
        return h

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return bench(
            forward, operands=sets, settle=_SETTLE_SECONDS, kernel_source="torch",
            parts=json.dumps(_parts(phase, batch_size, isl, cached, hidden_size, num_heads, num_key_value_heads, head_dim, intermediate_size)),
        )


def _parts(phase, batch_size, isl, cached, hidden_size, num_heads, num_key_value_heads, head_dim, intermediate_size):
    tokens = batch_size * (isl if phase == "prefill" else 1)
    q_width, kv_width = num_heads * head_dim, num_key_value_heads * head_dim
    heads = {"num_heads": num_heads, "num_key_value_heads": num_key_value_heads, "head_dim": head_dim, "kernel_source": "torch_flash"}
    attention = {"batch_size": batch_size, "isl": isl, **heads} if phase == "prefill" else {"batch_size": batch_size, "step": cached - 1, **heads}
    products = [(q_width + 2 * kv_width, hidden_size), (hidden_size, q_width), (2 * intermediate_size, hidden_size), (hidden_size, intermediate_size)]
    return [
        {"kernel": "rms_norm", "num_tokens": tokens, "hidden_size": hidden_size, "count": 2},
        *({"gemm_dtype": "bfloat16", "m": tokens, "n": n, "k": k} for n, k in products),
        attention,
        {"kernel": "silu_and_mul", "num_tokens": tokens, "hidden_size": intermediate_size},
    ]


def _rms_norm(torch, x, weight):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def _silu_and_mul(torch, x, _):
    half = x.shape[-1] // 2
    return torch.nn.functional.silu(x[..., :half]) * x[..., half:]


def _check(torch, kernel, got, x, weight):
    """Holds the first rows against float64."""
    x, got = x[:64].double(), got[:64].double()
    if kernel == "rms_norm":
        want = x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight.double()
    else:
        half = x.shape[-1] // 2
        want = x[:, :half] / (1 + torch.exp(-x[:, :half])) * x[:, half:]
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2 * math.sqrt(2))
