package pyhost_test

import (
	"os/exec"
	"testing"
)

// TestRouting checks what the synthetic routings of plans/modules/torch promise.
func TestRouting(t *testing.T) {
	const script = `
from routing import routing

for distribution in ("balanced", "power_law_1", "power_law_1.01", "power_law_1.2"):
    for tokens, experts, topk, ranks in ((1, 256, 8, 1), (4, 256, 8, 32), (100, 256, 8, 8), (4096, 128, 8, 4), (7, 16, 1, 16), (3, 8, 8, 1)):
        what = (distribution, tokens, experts, topk, ranks)
        got = routing(distribution, tokens, experts, topk, ranks, 5)
        assert len(got) == topk and all(len(c) == tokens for c in got), what
        counts = [0] * experts
        for chosen in zip(*got):
            assert len(set(chosen)) == topk, (what, "a token chooses an expert twice")
            for e in chosen:
                counts[e] += 1
        share = experts // ranks
        loads = [sum(counts[r * share : (r + 1) * share]) for r in range(ranks)]
        assert loads[0] == max(loads), (what, "rank 0 is not the busiest")
        assert routing(distribution, tokens, experts, topk, ranks, 5) == got, (what, "not the same again")
        if distribution == "balanced":
            assert max(counts) - min(counts) <= 1, (what, counts)
        elif tokens > 1000:
            assert routing(distribution, tokens, experts, topk, ranks, 6) != got, (what, "the seed does not count")
            assert max(counts) > 4 * tokens * topk / experts, (what, "no skew")
try:
    routing("uniform", 1, 1, 1, 1, 1)
    raise AssertionError("an unknown distribution is no error")
except ValueError:
    pass
`
	cmd := exec.Command(python(t), "-B", "-c", script)
	cmd.Dir = "../../plans/modules/torch"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
