package preflight

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestEveryAttributeHasAType: one without would let values of any type through,
// which its check then does not see.
func TestEveryAttributeHasAType(t *testing.T) {
	for _, c := range slices.Concat(HostChecks(), GPUChecks(nil), LibraryChecks(nil), RuntimeChecks(nil)) {
		for _, a := range c.Schema {
			if _, ok := argType(c.Name, a.Name); !ok {
				t.Errorf("%s.%s has no type in args.go", c.Name, a.Name)
			}
		}
	}
}

func TestSuits(t *testing.T) {
	for _, c := range []struct {
		check, name string
		value       cty.Value
		ok          bool
	}{
		{"disk", "min_gb", cty.NumberIntVal(3), true},
		{"disk", "min_gb", cty.StringVal("3"), false},
		{"disk", "min_gb", cty.NumberIntVal(-3), false},
		{"driver", "min", cty.StringVal("550.54"), true},
		{"driver", "min", cty.NumberIntVal(550), false},
		{"ecc", "enabled", cty.True, true},
		{"ecc", "enabled", cty.NumberIntVal(1), false},
	} {
		if err := suits(c.check, c.name, c.value); (err == nil) != c.ok {
			t.Errorf("%s.%s = %#v: %v", c.check, c.name, c.value, err)
		}
	}
}
