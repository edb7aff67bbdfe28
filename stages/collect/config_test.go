package collect

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicplan/engine/stage"
)

func TestConfigProblems(t *testing.T) {
	b := newBench(t, plain)
	for src, want := range map[string]string{
		`ramp = [20, 4]`:                                          "growing numbers",
		`breaker { after = -1 }`:                                  "after is -1",
		`retry { oom = 1000 }`:                                    "oom is 1000",
		`deadline { floor = "fast" }`:                             `floor: "fast"`,
		`deadline { factor = 0.5 }`:                               "at least 1",
		`measure { passes = 0 }`:                                  "passes is 0",
		`measure { graph = "maybe" }`:                             `graph is "maybe"`,
		"rule \"r\" { class = \"framework_bug\" }":                "needs match or exception",
		"rule \"r\" {\n class = \"x\"\n match = \"y\"\n}":         "must be one of",
		"rule \"r\" {\n class = \"transient\"\n match = \"(\"\n}": "rule \"r\": match",
		`bind = { run = "f" }`:                                    "takes no binding",
		`system = runtime.cpu`:                                    "system:",
	} {
		_, diags := b.config(src)
		if !diags.HasErrors() || !strings.Contains(diags.Error(), want) {
			t.Errorf("%s gave %v, want %q", src, diags, want)
		}
	}
	for src, want := range map[string]string{
		`breaker { group_by = ["gemm_dtype"] }`: `breaker.group_by names "gemm_dtype"; the grid's columns are m, dtype`,
		`weights = ["k"]`:                       `weights names "k"`,
	} {
		c, diags := b.config(src)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if _, diags = c.Plan(t.Context(), b.planContext()); !diags.HasErrors() || !strings.Contains(diags.Error(), want) {
			t.Errorf("%s gave %v, want %q", src, diags, want)
		}
	}
}

// TestFirstDeadline checks that a first deadline below the floor applies, and that its default is at least the floor.
func TestFirstDeadline(t *testing.T) {
	b := newBench(t, plain)
	for src, want := range map[string]time.Duration{
		`deadline { first = "5s" }`: 5 * time.Second,
		`deadline { floor = "2h" }`: 2 * time.Hour,
	} {
		c, diags := b.config(src)
		if diags.HasErrors() || time.Duration(c.limits.First) != want {
			t.Errorf("%s: the first deadline is %v, want %v; %v", src, time.Duration(c.limits.First), want, diags)
		}
	}
}

func TestIdentityExcludesPolicies(t *testing.T) {
	b := newBench(t, plain)
	base, _ := b.config("")
	for src, same := range map[string]bool{
		`ramp = [4]`:                  true,
		`retry { oom = 3 }`:           true,
		`measure { min_samples = 9 }`: false,
		`op = "other"`:                false,
		"rule \"r\" {\n class = \"transient\"\n match = \"x\"\n}": false,
	} {
		c, diags := b.config(src)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if got := cmp.Equal(stage.Identity(Kind(nil, nil), base), stage.Identity(Kind(nil, nil), c)); got != same {
			t.Errorf("%s: equal is %v, want %v", src, got, same)
		}
	}
}

// TestWarmExcludesReleasedRuntimes checks that a runtime whose workers end with each collect is not reported as warm.
func TestWarmExcludesReleasedRuntimes(t *testing.T) {
	for kind, want := range map[string]string{"cpu": "runtime.cpu", "python": "runtime.cpu", "server": "",
		"none such": "runtime.cpu"} {
		b := newBench(t, plain)
		c, diags := b.config("")
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		c.runtime.Kind = kind
		if got := c.Warm(); got != want {
			t.Errorf("after a collect of kind %s %q is warm, want %q", kind, got, want)
		}
	}
}
