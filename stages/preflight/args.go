package preflight

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
)

// argTypes are the types of the checks' attributes, by name; argTypesOf where
// one check means another thing by it.
var (
	argTypes = map[string]cty.Type{
		"min_gb": cty.Number, "max_per_core": cty.Number, "max_celsius": cty.Number, "count": cty.Number, "min": cty.Number,
		"apply": cty.Bool, "enabled": cty.Bool, "name": cty.String,
	}
	argTypesOf = map[string]cty.Type{"driver.min": cty.String}
)

func argType(check, name string) (cty.Type, bool) {
	if t, ok := argTypesOf[check+"."+name]; ok {
		return t, true
	}
	t, ok := argTypes[name]
	return t, ok
}

// suits reports a value of the wrong type. It would otherwise count as missing, and the check would pass.
func suits(check, name string, v cty.Value) error {
	want, ok := argType(check, name)
	if !ok || !v.IsKnown() {
		return nil
	}

	if v.Type() != want {
		return fmt.Errorf("%s of the check %q must be %s, not %s", name, check, want.FriendlyName(), v.Type().FriendlyName())
	}

	if want == cty.Number && v.AsBigFloat().Sign() < 0 {
		return fmt.Errorf("%s of the check %q is %s; it must not be negative", name, check, v.AsBigFloat().Text('g', 6))
	}
	return nil
}
