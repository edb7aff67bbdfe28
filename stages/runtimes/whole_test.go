package runtimes

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// TestOneWorkerHasAllGPUs checks that a collector that starts a process for each GPU has one worker that
// locks all of them.
func TestOneWorkerHasAllGPUs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		devices []int
		at      string
		locks   []string
		options string
	}{
		{"all", nil, "w0 0 GPU-aaaa", []string{"GPU-aaaa", "GPU-bbbb"},
			`{"gpu_uuids":"GPU-aaaa GPU-bbbb","gpus":2,"one_worker":true}`},
		{"named", []int{1, 0}, "w0 1 GPU-bbbb", []string{"GPU-bbbb", "GPU-aaaa"},
			`{"devices":[1,0],"gpu_uuids":"GPU-bbbb GPU-aaaa","gpus":2,"one_worker":true}`},
		{"one of them", []int{1}, "w0 1 GPU-bbbb", []string{"GPU-bbbb"},
			`{"devices":[1],"gpu_uuids":"GPU-bbbb","gpus":1,"one_worker":true}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rt := &stage.Runtime{
				Kind: "python", Address: "runtime.x", Python: fakePython(t, "1.0"), Workers: 3, Devices: c.devices,
				Options: map[string]cty.Value{"one_worker": cty.True},
			}
			p := NewPools(Kinds())
			defer p.Close()
			p.Devices = listed(twoGPUs...)
			slots, err := p.slots(rt, Place{RunDir: "/run", StateDir: t.TempDir(), PlanDir: "/plan"})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(places(slots), ", "); got != c.at {
				t.Errorf("workers at %s, want %s", got, c.at)
			}
			if diff := cmp.Diff(c.locks, p.devicesOf(rt, slots)); diff != "" {
				t.Error("locked", diff)
			}
			if raw, err := json.Marshal(slots[0].Spec.Init.Options); err != nil || string(raw) != c.options {
				t.Errorf("options %s (%v), want %s", raw, err, c.options)
			}
		})
	}
}
