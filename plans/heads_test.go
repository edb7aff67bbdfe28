package plans_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
)

// TestBackendPlansDeclareTheSameVariables checks that the plans declare the same variables with the same meaning. A
// plan has to declare a variable itself, so that --var can set it.
func TestBackendPlansDeclareTheSameVariables(t *testing.T) {
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
			sameDefault := (v.Default == cty.NilVal) == (was.Default == cty.NilVal) &&
				(v.Default == cty.NilVal || v.Default.RawEquals(was.Default))
			if v.Description != was.Description || !v.Type.Equals(was.Type) || !sameDefault {
				t.Errorf("%s: the variable %s is another one than in the plans before: %+v, %+v", backend, v.Name, v, was)
			}
		}
	}
	for _, name := range []string{"system", "ops", "models", "tp", "cases", "power", "coverage", "reference", "layout",
		"collector_root"} {
		if count[name] != len(backends) {
			t.Errorf("%d of %d plans have the variable %s", count[name], len(backends), name)
		}
	}
}
