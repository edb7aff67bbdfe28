package collect

import (
	"strings"
	"testing"

	"aicplan/engine/stage"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
)

// TestRunRejectsReusedRowsOfAnotherEnvironment checks that rows of another environment are accepted only from another
// node, or if the stages run on other machines.
func TestRunRejectsReusedRowsOfAnotherEnvironment(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	slurm := func(address string) *executors.Config {
		return &executors.Config{Kind: executors.Slurm, Address: address}
	}
	config := func(place *executors.Config) *Config {
		return &Config{runtime: b.runtime, pools: b.pools, place: place}
	}
	first := runtimes.Environment{Framework: "TRY", Version: "1", Device: "A", Env: map[string]string{"hostname": "n1"}}
	const node, device, version = "node", "device", "version"
	for _, x := range []struct {
		name         string
		taken, met   *executors.Config
		differs, say string
	}{
		{"another version here", nil, nil, version,
			`version "1" -> "2", against collect.first; nothing was done; apply again: the plan then knows what the workers ` +
				`report`},
		{"another node here", nil, nil, node, ""},
		{"one executor, another node", slurm("executor.a"), slurm("executor.a"), node, ""},
		{"one executor, another device", slurm("executor.a"), slurm("executor.a"), device, "name one kind with constraint"},
		{"two executors", slurm("executor.a"), slurm("executor.b"), device, ""},
		{"here and an executor", nil, slurm("executor.a"), device, ""},
		{"an executor and here", slurm("executor.a"), nil, device, ""},
	} {
		taken, met := config(x.taken), first
		taken.assumed.Store(&first)
		switch x.differs {
		case node:
			met.Env = map[string]string{"hostname": "n2"}
		case device:
			met.Device = "B"
		case version:
			met.Version = "2"
		}
		r := &running{Config: config(x.met), rc: &stage.RunContext{
			Store: b.store, Standing: func() map[string]stage.Stage { return map[string]stage.Stage{"collect.first": taken} },
		}}
		err := r.checkReused(&met, "nothing was done")
		if (err == nil) != (x.say == "") || err != nil && !strings.Contains(err.Error(), x.say) {
			t.Errorf("%s: got %v, want %q", x.name, err, x.say)
		}
	}
}
