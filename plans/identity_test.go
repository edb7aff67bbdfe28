package plans_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/stages/collect"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

// seen is the environment that every runtime is taken to have.
var seen = runtimes.Environment{
	Framework: "framework", Version: "1.2.3", Device: "NVIDIA H200",
	Env: map[string]string{"driver": "580.65.06", "cuda": "13.0", "torch": "2.9.0", "nccl": "2.27.5", "nccl_env": "none",
		"gpus": "8", "hostname": "node"},
}

// TestIdentity holds what identifies the data of the shipped plans: the key of
// every stage without its inputs, and the context of the case journal of every
// collect. A key that changes makes stages stale, and a context that changes has
// everything measured again: neither may happen by accident. After a change that
// is meant to do so, go test ./plans -run TestIdentity -update writes the new
// ones.
func TestIdentity(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob("*.hcl")
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	for _, name := range found {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := identities(t, name)
			golden := filepath.Join("testdata", "identity", strings.TrimSuffix(name, ".hcl")+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s: what identifies its data is not what it was (- was, + is):\n%s", name,
					diffLines(strings.Split(got, "\n"), strings.Split(string(want), "\n")))
			}
		})
	}
}

// identities has a line for every stage: its address and its key; and for
// collects two more, with what the key and the journal's context are made of.
func identities(t *testing.T, name string) string {
	cfg := shared(t, name)
	store, err := checkpoint.Open(t.TempDir(), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	specs := map[string]*grid.Spec{}
	var b strings.Builder
	for _, in := range cfg.Instances {
		st, deferred, diags := cfg.Decode(in)
		if diags.HasErrors() {
			t.Fatalf("%s: %s", in.Address, text(diags))
		}
		if deferred {
			fmt.Fprintf(&b, "%s: known after a run\n", in.Address)
			continue
		}
		if g, ok := st.(*grids.Stage); ok {
			specs[in.Address] = g.Spec
		}
		c, collects := st.(*collect.Config)
		if collects {
			// A kernel's source is read when the key is asked for.
			_, diags := c.KeyExtra(context.Background(), &stage.PlanContext{
				Address: in.Address, Range: in.Range, Store: store, PlanDir: cfg.Dir,
				Upstream: func(*stage.Ref) *stage.Plan { return nil },
			})
			if diags.HasErrors() {
				t.Fatalf("%s: %s", in.Address, text(diags))
			}
		}
		kind := in.Kind
		kind.Code = nil // which changes with every line of code
		key, canonical := plan.StageKey(kind, st, nil, nil)
		fmt.Fprintf(&b, "%s %s\n", in.Address, key)
		if !collects {
			continue
		}
		_, context, err := checkpoint.Key(c.Context(specs[st.Inputs()[0].Ref.Address], &seen))
		if err != nil {
			t.Fatalf("%s: %v", in.Address, err)
		}
		fmt.Fprintf(&b, "  key of %s\n  context %s\n", canonical, context)
	}
	return b.String()
}
