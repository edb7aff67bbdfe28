package stage

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// TestDivisionByZero checks that a division by zero is an error with a range, and that a condition
// or try avoids it.
func TestDivisionByZero(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"6 / 4": "1.5", "-7 % 3": "-1", "1 / 0": "", "5 % 0": "", "0 / 0": "", "0 % 0.0": "",
		"0 == 0 ? 1 : 1 / 0": "1", "false && 1 / 0 > 1": "false", "true || 5 % 0 == 1": "true",
	} {
		expr, diags := hclsyntax.ParseExpression([]byte(src), "plan.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}

		v, diags := expr.Value(nil)
		switch {
		case want == "" &&
			(!diags.HasErrors() || !strings.Contains(diags.Error(), "division by zero") || diags[0].Subject == nil):
			t.Errorf("%s: %#v, %v", src, v, diags)
		case want != "" && (diags.HasErrors() || text(v.GoString()) != want):
			t.Errorf("%s: %#v, %v; want %s", src, v, diags, want)
		}
	}
}

// text formats a value the way that cty prints a number or a bool.
func text(s string) string {
	for _, cut := range []string{"cty.NumberIntVal(", "cty.NumberFloatVal(", "cty.MustParseNumberVal(\"", "\")", ")"} {
		s = strings.ReplaceAll(s, cut, "")
	}
	return strings.ToLower(strings.TrimPrefix(s, "cty."))
}
