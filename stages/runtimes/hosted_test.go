package runtimes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

func TestHostedOp(t *testing.T) {
	h, ok := HostedOp("moe", map[string]any{"run": "run_moe", "versions": []any{
		map[string]any{"min": "1.0", "module": "collector.a.old"}, map[string]any{"min": "2.0", "module": "collector.a.new"},
	}})
	if !ok || len(h.Modules) != 2 || h.Modules[1] != "collector.a.new" {
		t.Errorf("%+v, %v", h, ok)
	}
	for _, bind := range []any{nil, map[string]any{"file": "x.py"}, map[string]any{"module": "x"}} {
		if h, ok := HostedOp("x", bind); ok {
			t.Errorf("%v is no collector, and gave %+v", bind, h)
		}
	}
}

func TestCheckoutLacks(t *testing.T) {
	root := t.TempDir()
	write := func(path string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("good/collector/acme/collect_gemm.py")
	write("empty/README.md")
	gemm := Hosted{Op: "gemm", Modules: []string{"collector.acme.collect_gemm"}}
	moe := Hosted{Op: "moe", Modules: []string{"collector.acme.collect_moe", "collector.acme.collect_moe_v2"}}
	for _, c := range []struct {
		name     string
		root     string
		launcher []string
		ops      []Hosted
		want     string
	}{
		{name: "there", root: "good", ops: []Hosted{gemm}},
		{name: "one of two", root: "good", ops: []Hosted{moe, gemm}},
		{name: "no root", ops: []Hosted{gemm, moe},
			want: "runtime.acme has no collector_root, and a checkout of aiconfigurator has the collectors of gemm, moe"},
		{name: "no root behind a launcher", launcher: []string{"docker"}, ops: []Hosted{gemm}, want: "no collector_root"},
		{name: "only the workers see it", root: "nowhere", launcher: []string{"docker"}, ops: []Hosted{gemm}},
		{name: "no folder", root: "nowhere", ops: []Hosted{gemm},
			want: "nowhere, which is no checkout of aiconfigurator"},
		{name: "something else", root: "empty", ops: []Hosted{gemm}, want: "which is no checkout of aiconfigurator"},
		{name: "another version", root: "good", ops: []Hosted{moe},
			want: "which has no collector/acme/collect_moe.py for moe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := &stage.Runtime{Address: "runtime.acme", Kind: "python", Launcher: c.launcher}
			if c.root != "" {
				rt.CollectorRoot = filepath.Join(root, c.root)
			}
			_, err := CheckoutLacks(rt, c.ops...)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var m *Missing
			if !errors.As(err, &m) || !strings.Contains(m.What, c.want) || m.Fix == "" {
				t.Fatalf("%v; want %q and a way out", err, c.want)
			}
		})
	}
}

func TestFrameworkLooksAtTheCheckout(t *testing.T) {
	p := NewPools(Kinds())
	defer p.Close()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "collector", "acme"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "collector", "acme", "a.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	rt := &stage.Runtime{Address: "runtime.acme", Kind: "python", Package: "acme", Python: interpreter(t, "printf 1.0"),
		CollectorRoot: root}
	text, err := p.Framework(t.Context(), rt)
	if err != nil || text != "acme 1.0" {
		t.Errorf("nothing hosted: %q, %v", text, err)
	}
	for _, op := range []string{"a", "b", "a"} {
		p.Use(rt, &Hosted{Op: op, Modules: []string{"collector.acme." + op}})
	}
	text, err = p.Framework(t.Context(), rt)
	if want := "acme 1.0; 1 collectors in " + root + "; not there: b (collector/acme/b.py)"; err != nil || text != want {
		t.Errorf("%q, %v; want %q", text, err, want)
	}
	rt.CollectorRoot = ""
	if _, err := p.Framework(t.Context(), rt); err == nil || !strings.Contains(err.Error(), "has no collector_root") {
		t.Errorf("no checkout: %v", err)
	}
	if m := p.Lacking(t.Context(), rt); m != nil {
		t.Errorf("a checkout that was not given is no other place: %v", m)
	}
}

func TestAbsent(t *testing.T) {
	one, two := interpreter(t, "printf 1.0"), interpreter(t, "printf 2.0")
	old := func(python string) *stage.Runtime {
		return &stage.Runtime{Address: "runtime.old", Kind: "python", Package: "acme", Requires: "==1.0", Python: python}
	}
	recent := func(python string) *stage.Runtime {
		return &stage.Runtime{Address: "runtime.new", Kind: "python", Package: "acme", Requires: "==2.0", Python: python,
			Image: "acme:2"}
	}
	for _, c := range []struct {
		name   string
		uses   []*stage.Runtime
		absent string // Absent is called with the last runtime
	}{
		{"the other is here", []*stage.Runtime{old(one), recent(one)},
			"acme 1.0 is installed, but runtime.new requires ==2.0"},
		{"both are here", []*stage.Runtime{old(one), recent(two)}, ""},
		{"neither is here", []*stage.Runtime{old(two), recent(one)}, ""},
		{"it is alone", []*stage.Runtime{recent(one)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewPools(Kinds())
			defer p.Close()
			for _, rt := range c.uses {
				p.Use(rt, nil)
			}
			m := p.Absent(t.Context(), c.uses[len(c.uses)-1])
			switch {
			case c.absent == "" && m != nil:
				t.Errorf("absent: %v", m)
			case c.absent != "" && (m == nil || m.What != c.absent || !strings.Contains(m.Fix, "acme:2")):
				t.Errorf("got %+v, want %q", m, c.absent)
			}
		})
	}
}

func TestExpectIgnoresRejectedVersions(t *testing.T) {
	store, err := checkpoint.Open(t.TempDir(), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := NewPools(Kinds())
	defer p.Close()
	rt := &stage.Runtime{Address: "runtime.new", Kind: "python", Package: "acme", Requires: "==2.0",
		Python: interpreter(t, "printf 1.0")}
	if err := writeSeen(store, rt.Address,
		Environment{Version: "2.0", Device: "NVIDIA H200", Identity: identity(rt), Interpreter: rt.Python}); err != nil {
		t.Fatal(err)
	}
	if env, _ := p.Expect(t.Context(), store, rt); env == nil || env.Version != "2.0" {
		t.Errorf("with 1.0 installed, which it refuses, it will run on %+v", env)
	}
	rt.Requires = ">=1.0"
	if env, _ := p.Expect(t.Context(), store, rt); env == nil || env.Version != "1.0" {
		t.Errorf("with 1.0 installed, which it takes, it will run on %+v", env)
	}
}

func TestEnvironmentReachesTheProbe(t *testing.T) {
	p := NewPools(Kinds())
	defer p.Close()
	python := interpreter(t, `printf "$ACME_VERSION"`)
	for _, v := range []string{"1.0", "2.0", "1.0"} {
		rt := &stage.Runtime{Address: "runtime.x", Kind: "python", Package: "acme", Python: python,
			Env: map[string]string{"ACME_VERSION": v}}
		if text, err := p.Framework(Running(t.Context()), rt); err != nil || text != "acme "+v {
			t.Errorf("%q, %v; want acme %s", text, err, v)
		}
	}
}
