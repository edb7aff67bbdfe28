package grid

import (
	"strings"
	"testing"
)

// TestTooLarge checks that products of 10^12 combinations are rejected once a limit is reached.
func TestTooLarge(t *testing.T) {
	const axes = `
op = "x"
axis "a" { values = range(1000) }
axis "b" { values = range(1000) }
axis "c" { values = range(1000) }
axis "d" { values = range(1000) }
`
	small := limits{cases: 10_000, visits: 1_000_000, evaluations: 10_000}
	for keep, want := range map[string]string{
		"true":                      "keeps more than 10000",
		"try(a + b + c + d, 0) < 0": "need more than 10000 evaluations",
		"a != 3 || b != 4":          "keeps more than 10000",
		"a + b + c + d < 0":         "its loops take more than 1000000 steps",
		"d < 0":                     "its loops take more than 1000000 steps",
	} {
		spec := mustDecode(t, axes+"filter \"f\" {\n keep = "+keep+"\n reason = \"r\"\n}")
		c, diags := expand(spec, options{small, (*walker).run})
		if c != nil || len(diags) != 1 || !strings.Contains(diags[0].Detail, want) ||
			!strings.Contains(diags[0].Detail, "a 1000 x b 1000 x c 1000 x d 1000") {
			t.Errorf("%s: %v", keep, diags)
		}
	}
}
