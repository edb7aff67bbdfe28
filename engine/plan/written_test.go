package plan

import (
	"path/filepath"
	"testing"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
)

// TestNamesOfPlans: a record is of the plan whose file and folder it names; one of
// an earlier version, of which only the file is known, is of each plan of that name.
func TestNamesOfPlans(t *testing.T) {
	t.Parallel()
	of := func(parts ...string) *config.Config {
		return &config.Config{Path: filepath.Join(append([]string{t.TempDir()}, parts...)...)}
	}
	a, b := of("a", "main.hcl"), of("b", "main.hcl")
	if NameOf(a) != "a/main.hcl" || NameOf(of("plans", "night")) != "plans/night" {
		t.Errorf("names %s and %s", NameOf(a), NameOf(of("plans", "night")))
	}
	for recorded, want := range map[string][2]bool{
		"a/main.hcl": {true, false}, "b/main.hcl": {false, true}, "main.hcl": {true, true}, "other.hcl": {}, "": {},
	} {
		if got := [2]bool{checkpoint.IsPlan(recorded, NameOf(a)), checkpoint.IsPlan(recorded, NameOf(b))}; got != want {
			t.Errorf("%q: %v, want %v", recorded, got, want)
		}
	}
}
