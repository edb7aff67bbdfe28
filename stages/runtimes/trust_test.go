package runtimes

import (
	"testing"

	"aicplan/engine/stage"
)

// TestPlainPython: while a plan is made, only an interpreter of the machine is
// asked, and nothing that the plan sets gets code into it.
func TestPlainPython(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		python string
		env    map[string]string
		want   bool
	}{
		{"", nil, true},
		{"python3", map[string]string{"PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": "0"}, true},
		{"/opt/venv/bin/python3.12", nil, true},
		{"./python3", nil, false},
		{"venv/bin/python3", nil, false},
		{"/bin/sh", nil, false},
		{"evil", nil, false},
		{"", map[string]string{"PYTHONPATH": "."}, false},
		{"", map[string]string{"LD_PRELOAD": "./x.so"}, false},
	} {
		rt := &stage.Runtime{Kind: "python", Python: c.python, Env: c.env}
		if got := plainPython(rt); got != c.want {
			t.Errorf("%q %v: %v", c.python, c.env, got)
		}
	}
}

// TestPlansGiveNoEnvironment: an interpreter that is asked for a plan does not see
// the plan's variables: a wrapper in front of it could obey them.
func TestPlansGiveNoEnvironment(t *testing.T) {
	t.Parallel()
	p := NewPools(Kinds())
	defer p.Close()
	python := interpreter(t, `printf "${BASH_ENV:-1.0}"`)
	rt := &stage.Runtime{Address: "runtime.x", Kind: "python", Package: "acme", Python: python, Env: map[string]string{"BASH_ENV": "2.0"}}
	if text, err := p.Framework(t.Context(), rt); err != nil || text != "acme 1.0" {
		t.Errorf("%q, %v", text, err)
	}
}
