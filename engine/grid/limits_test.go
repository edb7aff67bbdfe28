package grid

import (
	"context"
	"strings"
	"testing"
)

// TestTooLarge: with the default limits, products of 10^12 are refused, before
// the first step where no filter could drop anything earlier, and else soon after.
func TestTooLarge(t *testing.T) {
	const axes = `
op = "x"
axis "a" { values = range(1000) }
axis "b" { values = range(1000) }
axis "c" { values = range(1000) }
axis "d" { values = range(1000) }
`
	for keep, want := range map[string]string{
		"true":                      "keeps more than 4000000",
		"a != 3 || b != 4":          "its loops would take some",
		"a + b + c + d < 0":         "take 1000000000000 steps before a filter can drop anything",
		"try(a + b + c + d, 0) < 0": "take 1000000000000 steps before a filter can drop anything",
		"d < 0":                     "take 1000000000000 steps before a filter can drop anything",
	} {
		spec := mustDecode(t, axes+"filter \"f\" {\n keep = "+keep+"\n reason = \"r\"\n}")
		w := newWalker(context.Background(), newProgram(spec, nil), DefaultLimits())
		w.run()
		if len(w.diags) != 1 || !strings.Contains(w.diags[0].Detail, want) || !strings.Contains(w.diags[0].Detail, "a 1000 x b 1000 x c 1000 x d 1000") {
			t.Errorf("%s: %v", keep, w.diags)
		}
		if w.visits > 5_000_000 || w.evals+w.quick > 200_000 {
			t.Errorf("%s: %d steps and %d evaluations before it is refused", keep, w.visits, w.evals+w.quick)
		}
	}
}
