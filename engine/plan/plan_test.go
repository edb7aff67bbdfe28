package plan_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/engine/stage/stagetest"
	"aicplan/stages/grids"
	"aicplan/systems"
)

func build(t testing.TB, dir, text string, opts plan.Options) (*plan.Plan, hcl.Diagnostics) {
	t.Helper()
	path := filepath.Join(dir, "plan.hcl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	store, err := checkpoint.Open(filepath.Join(dir, "state"), checkpoint.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	cfg, diags := config.Load(config.Options{
		Path: path, Kinds: map[string]stage.Kind{"thing": stagetest.Thing(), "grid": grids.Kind()},
		Systems: func(name, _ string) (*systems.Spec, error) { return systems.Load(name) },
	})
	if diags.HasErrors() {
		return nil, diags
	}
	return plan.Build(context.Background(), cfg, store, opts)
}

const two = `
grid "a" {
  op = "gemm"
  axis "m" { values = [1, 2, 3] }
  axis "n" { values = [4, 8] }
  filter "odd" {
    keep   = m != 2
    reason = "no even tokens"
  }
}
grid "b" {
  op = "moe"
  axis "topk" { values = [2] }
}
thing "behind_a" { input = grid.a }
thing "behind_b" { input = grid.b }
thing "free" { value = 1 }
`

func addresses(p *plan.Plan) string {
	var out []string
	for _, s := range p.Stages {
		out = append(out, s.Address())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestSelection(t *testing.T) {
	for _, c := range []struct {
		targets, excludes []string
		want              string
	}{
		{nil, nil, "grid.a grid.b thing.behind_a thing.behind_b thing.free"},
		{[]string{"thing.behind_a"}, nil, "grid.a thing.behind_a"},
		{[]string{"grid.*"}, nil, "grid.a grid.b"},
		{[]string{"thing.behind_*"}, nil, "grid.a grid.b thing.behind_a thing.behind_b"},
		{nil, []string{"grid.a"}, "grid.b thing.behind_b thing.free"},
		{[]string{"thing.*"}, []string{"thing.free", "grid.b"}, "grid.a thing.behind_a"},
	} {
		p, diags := build(t, t.TempDir(), two, plan.Options{Targets: c.targets, Excludes: c.excludes})
		if diags.HasErrors() {
			t.Errorf("%v %v: %v", c.targets, c.excludes, diags)
			continue
		}
		if got := addresses(p); got != c.want {
			t.Errorf("targets %v excludes %v: %s, want %s", c.targets, c.excludes, got, c.want)
		}
	}
	_, diags := build(t, t.TempDir(), two, plan.Options{Targets: []string{"grid.c"}})
	if !diags.HasErrors() || !strings.Contains(diags.Error(), `"grid.c"`) {
		t.Errorf("a target that fits nothing: %v", diags)
	}
}

func TestSummaryCounts(t *testing.T) {
	p, diags := build(t, t.TempDir(), two, plan.Options{})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	sum := plan.Summarize(p)
	want := plan.Totals{Stages: 5, Grids: 2, Declared: 7, Dropped: 2, Cases: 5}
	if d := cmp.Diff(want, sum.Totals); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
	line := sum.Line()
	if !strings.HasPrefix(line, "Plan: 5 stages; 5 cases (0 to collect, 0 reused), 2 dropped by filters") {
		t.Error(line)
	}
}

func TestSavedPlan(t *testing.T) {
	dir := t.TempDir()
	p, diags := build(t, dir, two, plan.Options{})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	path := filepath.Join(dir, "x.plan")
	if err := plan.Save(path, p, plan.Saved{Version: "0.1.0", Path: filepath.Join(dir, "plan.hcl")}); err != nil {
		t.Fatal(err)
	}
	if !plan.IsSaved(path) || plan.IsSaved(filepath.Join(dir, "plan.hcl")) {
		t.Error("a saved plan and a plan are not told apart")
	}
	s, err := plan.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := build(t, dir, two+"\n# a comment changes nothing\n", plan.Options{})
	if got := s.Changed(again); len(got) != 0 {
		t.Errorf("unchanged, but %v", got)
	}
	more, _ := build(t, dir, strings.Replace(two, "[1, 2, 3]", "[1, 2, 3, 5]", 1), plan.Options{})
	if got := s.Changed(more); !slices.Equal(got, []string{"grid.a has 6 cases instead of 4"}) {
		t.Errorf("after a new value: %v", got)
	}
}

func TestInputThatHandsOnNothing(t *testing.T) {
	_, diags := build(t, t.TempDir(), "thing \"a\" { input = thing.b }\nthing \"b\" { input = thing.a }\n", plan.Options{})
	if !diags.HasErrors() || diags[0].Subject == nil || !strings.Contains(diags.Error(), "thing.a") {
		t.Errorf("a cycle between stages: %v", diags)
	}
}

// BenchmarkPlan1000Stages is the cost of a plan with many stages and few
// cases: loading, references, graph, decisions.
func BenchmarkPlan1000Stages(b *testing.B) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "thing \"t%d\" {\n  value = %d\n", i, i)
		if i > 0 {
			fmt.Fprintf(&text, "  input = thing.t%d\n", i/2)
		}
		text.WriteString("}\n")
	}
	dir := b.TempDir()
	for b.Loop() {
		if _, diags := build(b, dir, text.String(), plan.Options{}); diags.HasErrors() {
			b.Fatal(diags)
		}
	}
}
