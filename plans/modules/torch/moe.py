"""A gated mixture-of-experts layer through grouped products: gather the tokens
of each expert, two products with SiLU gating between them, weigh and add up.

One rank's share is measured: inter_size / moe_tp_size of every expert, and
num_experts / moe_ep_size experts, those of the rank with the most work. The
router itself is not part of it. num_tokens comes from the sweep, so that one
case measures all token counts on the same weights.
"""

from routing import routing

_SAMPLED = 32


def moe(
    moe_dtype, num_tokens, hidden_size, inter_size, topk, num_experts, moe_tp_size, moe_ep_size, distribution, bench,
    model_name="", min_latency_mode=False,
):
    torch = bench.torch
    grouped = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
    if grouped is None:
        bench.unsupported("this torch has no grouped product")
    if moe_dtype != "bfloat16" or min_latency_mode:
        bench.unsupported("only bfloat16 experts, without a low-latency mode")
    if num_experts % moe_ep_size or inter_size % moe_tp_size:
        bench.unsupported("the experts or their width cannot be split like this")
    inter, local = inter_size // moe_tp_size, num_experts // moe_ep_size
    if inter % 8 or hidden_size % 8:
        bench.unsupported("grouped products need widths in steps of 8")

    # Choice c of token t is at [c, t]; those of other ranks' experts fall away.
    chosen = torch.tensor(routing(distribution, num_tokens, num_experts, topk, moe_ep_size, bench.seed))
    order = chosen.flatten().argsort(stable=True)
    order = order[: int((chosen < local).sum())]
    if not len(order):
        bench.unsupported("no token reaches this rank")
    device = bench.device
    tokens = (order % num_tokens).to(device)
    ends = torch.bincount(chosen.flatten(), minlength=num_experts)[:local].cumsum(0).to(dtype=torch.int32, device=device)
    weights = torch.full((len(order), 1), 1.0 / topk, dtype=torch.bfloat16, device=device)

    sets = bench.rotate(
        ((local, 2 * inter, hidden_size), torch.bfloat16),
        ((local, hidden_size, inter), torch.bfloat16),
        keep=[((num_tokens, hidden_size), torch.bfloat16)],
    )
    # Operands are standard normals; like initialised weights, products of them
    # must not grow from layer to layer.
    down = (hidden_size**-0.5, inter**-0.5)

    def kernel(x, up_gate, out):
        h = grouped(x.index_select(0, tokens), up_gate.transpose(1, 2), offs=ends)
        up, gate = (h * down[0]).chunk(2, dim=-1)
        y = grouped(torch.nn.functional.silu(gate) * up, out.transpose(1, 2), offs=ends)
        return torch.zeros_like(x).index_add_(0, tokens, y * (weights * down[1]))

    if bench.verify:
        _check(torch, kernel, *sets[0], chosen, local, down, topk)
    return bench(kernel, operands=sets, op_name="moe", kernel_source="torch_grouped_mm")


def _check(torch, kernel, x, up_gate, out, chosen, local, down, topk):
    """Holds sampled tokens against the layer computed expert by expert in
    float32."""
    got = kernel(x, up_gate, out)
    pick = torch.Generator().manual_seed(1)
    for t in torch.randperm(x.shape[0], generator=pick)[:_SAMPLED].tolist():
        want = torch.zeros(x.shape[1], device=x.device)
        for e in chosen[:, t].tolist():
            if e < local:
                up, gate = (up_gate[e].float() @ x[t].float() * down[0]).chunk(2)
                want += out[e].float() @ (torch.nn.functional.silu(gate) * up) * down[1] / topk
        torch.testing.assert_close(got[t].float(), want, rtol=5e-2, atol=2e-2)
