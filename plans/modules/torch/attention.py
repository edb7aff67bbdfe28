"""Scaled dot-product attention through torch, prefill and decode.

kernel_source chooses the backend: torch_flash or torch_cudnn. Both phases are
bfloat16 with a bfloat16 cache; keys and values lie as a cache holds them, token
by token. The columns are those of the attention tables: a decode step has
isl = 1 and attends to step + 1 tokens.
"""

import math

_SAMPLED_ROWS = 64
_SAMPLED_HEADS = 4


def attention_context(
    batch_size, isl, num_heads, num_key_value_heads, head_dim, kernel_source, bench,
    window_size=0, attn_dtype="bfloat16", kv_cache_dtype="bfloat16",
):
    _supported(bench, window_size, isl, attn_dtype, kv_cache_dtype)
    return _measure(
        bench, kernel_source, batch_size, isl, isl, num_heads, num_key_value_heads, head_dim, True,
        op_name="context_attention", beam_width=1, step=0,
    )


def attention_generation(
    batch_size, step, num_heads, num_key_value_heads, head_dim, kernel_source, bench,
    window_size=0, kv_cache_dtype="bfloat16",
):
    _supported(bench, window_size, step + 1, "bfloat16", kv_cache_dtype)
    return _measure(
        bench, kernel_source, batch_size, 1, step + 1, num_heads, num_key_value_heads, head_dim, False,
        op_name="generation_attention", beam_width=1, isl=1, attn_dtype="bfloat16",
    )


def _supported(bench, window_size, length, attn_dtype, kv_cache_dtype):
    if 0 < window_size < length:
        bench.unsupported("torch's attention has no sliding window")
    if attn_dtype != "bfloat16" or kv_cache_dtype != "bfloat16":
        bench.unsupported("torch's attention has no %s with a %s cache" % (attn_dtype, kv_cache_dtype))


def _measure(bench, kernel_source, batch, q_len, kv_len, heads, kv_heads, head_dim, causal, **columns):
    torch = bench.torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = {"torch_flash": SDPBackend.FLASH_ATTENTION, "torch_cudnn": SDPBackend.CUDNN_ATTENTION}
    if kernel_source not in backends:
        bench.unsupported("no attention backend %s; there are %s" % (kernel_source, ", ".join(sorted(backends))))
    kind = torch.bfloat16
    sets = bench.rotate(
        ((batch, q_len, heads, head_dim), kind), ((batch, kv_len, kv_heads, head_dim), kind), ((batch, kv_len, kv_heads, head_dim), kind)
    )
    grouped = heads != kv_heads

    def kernel(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=causal, enable_gqa=grouped
        )

    with sdpa_kernel(backends[kernel_source]):
        try:
            got = kernel(*sets[0])
        except RuntimeError as err:
            if "No available kernel" in str(err):
                bench.unsupported("%s has no kernel for this shape" % kernel_source)
            raise
        if bench.verify:
            _check(torch, got, *sets[0], causal)
        del got
        return bench(kernel, operands=sets, kernel_source=kernel_source, **columns)


def _check(torch, got, q, k, v, causal):
    """Holds sampled rows of sampled heads against float64."""
    batch, q_len, heads, head_dim = q.shape
    group = heads // k.shape[2]
    pick = torch.Generator().manual_seed(1)
    rows = torch.randperm(q_len, generator=pick)[:_SAMPLED_ROWS].sort().values.to(q.device)
    for _ in range(_SAMPLED_HEADS):
        b = int(torch.randint(batch, (), generator=pick))
        h = int(torch.randint(heads, (), generator=pick))
        scores = q[b, rows, h].double() @ k[b, :, h // group].double().t() / math.sqrt(head_dim)
        if causal:
            seen = torch.arange(k.shape[1], device=q.device)[None, :] <= rows[:, None]
            scores = scores.masked_fill(~seen, -math.inf)
        want = torch.softmax(scores, dim=-1) @ v[b, :, h // group].double()
        torch.testing.assert_close(got[b, h, rows].double(), want, rtol=2e-2, atol=2e-2)
