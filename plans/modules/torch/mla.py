"""The two batched products of a decode step of multi-head latent attention, one
matrix per head: queries into the latent space before the attention (pre) and
out of it afterwards (post). Dimensions are those of DeepSeek V3.
"""

_NOPE, _LATENT, _VALUE = 128, 512, 128


def mla_bmm_gen_pre(num_tokens, num_heads, bmm_dtype, bench):
    return _bmm(bench, num_tokens, num_heads, bmm_dtype, _NOPE, _LATENT, "mla_gen_pre")


def mla_bmm_gen_post(num_tokens, num_heads, bmm_dtype, bench):
    return _bmm(bench, num_tokens, num_heads, bmm_dtype, _LATENT, _VALUE, "mla_gen_post")


def _bmm(bench, num_tokens, num_heads, bmm_dtype, inner, outer, op_name):
    torch = bench.torch
    if bmm_dtype not in ("bfloat16", "float16"):
        bench.unsupported("torch has no batched product for %s" % bmm_dtype)
    kind = getattr(torch, bmm_dtype)
    # Activations lie token by token, weights head by head inside each row.
    sets = bench.rotate(((outer, num_heads, inner), kind), keep=[((num_tokens, num_heads, inner), kind)])

    def kernel(x, w):
        return torch.bmm(x.transpose(0, 1), w.permute(1, 2, 0))

    if bench.verify:
        x, w = sets[0]
        want = torch.einsum("thi,ohi->hto", x.double(), w.double())
        torch.testing.assert_close(kernel(x, w).double(), want, rtol=2e-2, atol=0.05 * inner**0.5)
    return bench(kernel, operands=sets, op_name=op_name, kernel_source="torch_bmm")
