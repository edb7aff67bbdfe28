package plan

import (
	"testing"

	"aicplan/engine/config"
)

// TestNamesOfPlans: the name of a plan is its file and the folder of the file.
func TestNamesOfPlans(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/x/a/main.hcl": "a/main.hcl", "/x/plans/night": "plans/night"} {
		if got := NameOf(&config.Config{Path: path}); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
