package grid

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"
)

// TestWhyAgreesWithExpand checks that the parameters of a case are kept under its ID, and that a
// verdict without given values counts every combination.
func TestWhyAgreesWithExpand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := randomGrid(t)
		spec, diags := Decode(parseBody(t, src), testScope(), nil)
		if diags.HasErrors() {
			t.Skip()
		}

		c, diags := Expand(spec)
		if diags.HasErrors() {
			t.Skip()
		}

		all, diags := Why(spec, nil)
		w := c.Waterfall
		if diags.HasErrors() || all.Matching != w.Declared || all.Cases != w.Cases ||
			all.Passing != int64(w.Cases+w.Duplicates) {
			t.Fatalf("%+v, %v; the waterfall is %+v\n%s", all, diags, w, src)
		}

		if c.Len() == 0 {
			return
		}

		i := rapid.IntRange(0, c.Len()-1).Draw(t, "case")
		given := map[string]cty.Value{}
		for col, name := range c.Columns() {
			given[name] = c.Value(i, col)
		}

		v, diags := Why(spec, given)
		if diags.HasErrors() || !v.Kept || v.Cases != 1 || !slices.Contains(v.IDs, c.ID(i)) {
			t.Fatalf("case %d is %v: %+v, %v\n%s", i, given, v, diags, src)
		}
	})
}

// TestWhyDropsWhatIsFalseEarly uses a condition with two equal results: the filter is false before
// cap is bound, and cap is null, which cannot be compared.
func TestWhyDropsWhatIsFalseEarly(t *testing.T) {
	spec := mustDecode(t, `
op = "x"
axis "a"   { values = [1, 2, 3] }
axis "cap" { values = [null] }
filter "room" {
  keep   = a > 0 && 1 < (a < cap ? 1 : 1)
  reason = "no room"
}
`)

	if w := mustExpand(t, spec).Waterfall; w.Filters[0].Dropped != 3 {
		t.Fatalf("the grid keeps what this test is about: %+v", w)
	}

	v, diags := Why(spec, nil)
	if diags.HasErrors() || v.Kept || v.Passing != 0 || len(v.Drops) != 1 || v.Drops[0].Dropped != 3 {
		t.Fatalf("%+v, %v", v, diags)
	}
}

// TestPackageExample decodes and expands the example of the package comment.
func TestPackageExample(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}

	_, rest, ok := strings.Cut(string(text), "//\tgrid \"attention\" {\n")
	body, _, ok2 := strings.Cut(rest, "//\t}\n")
	if !ok || !ok2 {
		t.Fatal("the package comment has no example")
	}

	scope := testScope()
	scope.vars["local"] = cty.ObjectVal(
		map[string]cty.Value{"lengths": cty.TupleVal([]cty.Value{cty.NumberIntVal(1), cty.NumberIntVal(64)})})
	spec, diags := Decode(parseBody(t, strings.ReplaceAll(body, "//\t", "")), scope, nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}

	c := mustExpand(t, spec)
	if w := c.Waterfall; w.Declared != 16 || w.Cases != 12 || w.Filters[0].Dropped != 4 {
		t.Errorf("%+v", w)
	}
}

func TestWhyLimits(t *testing.T) {
	spec := mustDecode(t, `
op = "x"
axis "a" { values = range(1000) }
axis "b" { values = range(1000) }
axis "c" { values = range(1000) }
filter "few" {
  keep   = a < 2 && b < 2 && c < 2
  reason = "few"
}
`)
	v, diags := Why(spec, map[string]cty.Value{"a": cty.NumberIntVal(1)})
	if diags.HasErrors() || len(v.Drops) != 1 || v.Cases != 4 || v.Matching != 1_000_000 {
		t.Errorf("%+v %v", v, diags)
	}

	v, diags = Why(spec, nil)
	if diags.HasErrors() || len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "name more values") {
		t.Errorf("%+v %v", v, diags)
	}
}
