package plans_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
)

// TestHeadsAreAlike: the plans of the backends declare the same variables, as what
// --var sets has to be declared by the plan itself. One that several have means the
// same in each.
func TestHeadsAreAlike(t *testing.T) {
	t.Parallel()
	first := map[string]config.Variable{}
	count := map[string]int{}
	for _, backend := range backends {
		for _, v := range shared(t, planOf(backend)).Variables() {
			count[v.Name]++
			was, ok := first[v.Name]
			if first[v.Name] = v; !ok {
				continue
			}
			sameDefault := (v.Default == cty.NilVal) == (was.Default == cty.NilVal) && (v.Default == cty.NilVal || v.Default.RawEquals(was.Default))
			if v.Description != was.Description || !v.Type.Equals(was.Type) || !sameDefault {
				t.Errorf("%s: the variable %s is another one than in the plans before: %+v, %+v", backend, v.Name, v, was)
			}
		}
	}
	for _, name := range []string{"system", "ops", "models", "tp", "power", "coverage", "reference", "layout", "collector_root"} {
		if count[name] != len(backends) {
			t.Errorf("%d of %d plans have the variable %s", count[name], len(backends), name)
		}
	}
}
