"""How tokens choose experts in synthetic mixture-of-experts workloads.

A distribution is "balanced" or "power_law_ALPHA". No token chooses an expert
twice. Under expert parallelism rank 0 is the one with the most work, as the
slowest rank decides.
"""

import random


def routing(distribution, num_tokens, num_experts, topk, ep_size, seed):
    """topk lists of num_tokens expert ids: the choices of token t are the t-th
    entries. The same for the same arguments."""
    if distribution == "balanced":
        counts = _balanced(num_tokens, num_experts, topk)
    elif distribution.startswith("power_law_"):
        counts = _power_law(num_tokens, num_experts, topk, float(distribution[len("power_law_") :]), random.Random(seed))
    else:
        raise ValueError("no distribution %r; there are balanced and power_law_ALPHA" % distribution)
    return assign(_heaviest_rank_first(counts, ep_size), num_tokens, topk)


def _balanced(num_tokens, num_experts, topk):
    """Every expert gets the same share; what is left over goes to experts that
    lie evenly apart, so that no rank gets all of it."""
    share, rest = divmod(num_tokens * topk, num_experts)
    counts = [share] * num_experts
    for i in range(rest):
        counts[i * num_experts // rest] += 1
    return counts


def _power_law(num_tokens, num_experts, topk, alpha, rng):
    """Shares drawn from a density x^-alpha, scaled to the number of choices and
    bounded by the number of tokens, of which each chooses an expert once."""
    total = num_tokens * topk
    low, high = (1.0, num_tokens * 0.8) if total > num_experts else (0.01, 2.0)
    draws = [_inverse_power(rng.random(), alpha, low, high) for _ in range(num_experts)]
    scale = total / sum(draws)
    counts = [min(num_tokens, round(d * scale)) for d in draws]
    step = 1 if sum(counts) < total else -1
    order = sorted(range(num_experts), key=lambda e: counts[e] * step)
    at = 0
    while sum(counts) != total:
        e = order[at % num_experts]
        if 0 <= counts[e] + step <= num_tokens:
            counts[e] += step
        at += 1
    return counts


def _inverse_power(u, alpha, low, high):
    if abs(alpha - 1) < 1e-9:
        return low * (high / low) ** u
    a, b = low ** (1 - alpha), high ** (1 - alpha)
    return (a + (b - a) * u) ** (1 / (1 - alpha))


def _heaviest_rank_first(counts, ep_size):
    per_rank = len(counts) // ep_size
    ranks = [counts[r * per_rank : (r + 1) * per_rank] for r in range(ep_size)]
    heaviest = max(range(ep_size), key=lambda r: sum(ranks[r]))
    ranks[0], ranks[heaviest] = ranks[heaviest], ranks[0]
    return [c for rank in ranks for c in rank]


def assign(counts, num_tokens, topk):
    """The experts of all tokens with the given counts: topk lists of num_tokens
    ids. Experts in falling order of their counts fill the lists one after the
    other; none has more choices than a list has tokens, so it cannot meet a
    token twice."""
    flat = []
    for e in sorted(range(len(counts)), key=lambda e: -counts[e]):
        flat.extend([e] * counts[e])
    return [flat[c * num_tokens : (c + 1) * num_tokens] for c in range(topk)]
