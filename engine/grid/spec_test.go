package grid

import (
	"fmt"
	"slices"
	"testing"
)

func TestAxes(t *testing.T) {
	spec := mustDecode(t, `
op = "x"
axis "common" {
  values      = [1, 2]
  description = "for all"
}
case_set "one" {
  rows "r" {
    values = [{ a = 1, b = "x" }]
  }
  filter "f" {
    keep   = a > 0
    reason = "r"
  }
}
columns = ["common"]
filter "g" {
  keep   = common > 0
  reason = "r"
}
`)
	var got []string
	for _, a := range spec.Dims() {
		got = append(got, fmt.Sprintf("%s/%s %v %v %d", a.Set, a.Name, a.Rows, a.Fields, a.Size()))
	}

	if want := []string{`one/r true [a b] 1`, `/common false [common] 2`}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}

	got = nil
	for _, f := range spec.filters {
		got = append(got, f.Label())
	}

	if want := []string{"one.f", "g"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
