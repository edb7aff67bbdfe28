package runtimes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"aicplan/cudaops/pyhost"
	"aicplan/engine/stage"
	"aicplan/sink/base/testutil"
)

func TestSatisfies(t *testing.T) {
	for _, c := range []struct {
		version, spec string
		ok            bool
	}{
		{"1.3.0rc20", ">=1.3.0rc20", true},
		{"1.3.0rc5", ">=1.3.0rc20", false},
		{"0.24.0", "==0.24.0", true},
		{"0.24.0+cu130", "==0.24.0", true},
		{"0.25.0", "==0.24.0", false},
		{"0.1.dev19262", "", true},
	} {
		if err := Satisfies(c.version, c.spec); (err == nil) != c.ok {
			t.Errorf("%s against %s: %v", c.version, c.spec, err)
		}
	}
	if err := Satisfies("1.0", "nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a specifier that is none: %v", err)
	}
}

// Fake interpreters: scripts that print what python would.
func interpreter(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python3")
	testutil.WriteProgram(t, path, "#!/bin/sh\n"+body+"\n")
	return path
}

// TestFailedInterpreterIsReported checks that an interpreter that fails is neither accepted nor
// reported as missing, and that one without a version is usable.
func TestFailedInterpreterIsReported(t *testing.T) {
	p := NewPools(Kinds())
	defer p.Close()
	rt := &stage.Runtime{Address: "runtime.x", Kind: "python", Package: "acme", Requires: ">=9",
		Python: interpreter(t, "echo 'cannot load libpython' >&2; exit 1")}
	_, err := p.Framework(Running(t.Context()), rt)
	if u, ok := errors.AsType[*Unjudged](err); !ok || !strings.Contains(u.What, "exit status 1: cannot load libpython") {
		t.Errorf("%v", err)
	}
	if m := p.Lacking(Running(t.Context()), rt); m != nil {
		t.Errorf("it misses %v", m)
	}
	if u := p.Unanswered(rt); u == nil {
		t.Error("a plan is not told of it")
	}
	rt.Python = interpreter(t, "printf '?'")
	if u := p.Unanswered(rt); u != nil {
		t.Errorf("nobody asked, and %v", u)
	}
	if text, err := p.Framework(Running(t.Context()), rt); err != nil || !strings.Contains(text, "a worker will") {
		t.Errorf("%q, %v: nobody knows that it is missing", text, err)
	}
}

// TestInterpreterTimeoutEndsWrapper checks that child processes of an interpreter's wrapper do not delay a plan after
// the timeout.
func TestInterpreterTimeoutEndsWrapper(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	started := filepath.Join(t.TempDir(), "started")
	python := interpreter(t, fmt.Sprintf("{ echo > %s; cat %s; } & wait", started, fifo))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(started); err == nil || t.Context().Err() != nil {
				cancel()
				return
			}
			runtime.Gosched()
		}
	}()
	if got := pyhost.Ask(ctx, python, "acme", nil, nil); got.Failure == "" || got.Package != pyhost.UnknownVersion {
		t.Errorf("%+v", got)
	}
	f, err := os.OpenFile(fifo, os.O_RDWR, 0) // lets cat end
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func notExecutable(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPythonFramework(t *testing.T) {
	for _, c := range []struct {
		name, python, want, fix string
	}{
		{"installed", interpreter(t, "printf 1.3.0rc20"), "", ""},
		{"too old", interpreter(t, "printf 1.2.0"), "1.2.0 is installed, but runtime.trtllm requires >=1.3.0rc20",
			"nvcr/tensorrt-llm:1"},
		{"not installed", interpreter(t, "exit 0"), "tensorrt_llm is not installed", "nvcr/tensorrt-llm:1"},
		{"not executable", notExecutable(t), "cannot be run", "chmod +x"},
		{"no interpreter", "/nowhere/python3", "/nowhere/python3 is not on this machine", "nvcr/tensorrt-llm:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewPools(Kinds())
			defer p.Close()
			text, err := p.Framework(t.Context(), &stage.Runtime{
				Address: "runtime.trtllm", Kind: "python", Package: "tensorrt_llm", Requires: ">=1.3.0rc20", Python: c.python,
				Image: "nvcr/tensorrt-llm:1",
			})
			if c.want == "" {
				if err != nil || !strings.Contains(text, "1.3.0rc20") {
					t.Fatalf("%q, %v", text, err)
				}
				return
			}
			var m *Missing
			if !errors.As(err, &m) || !strings.Contains(m.What, c.want) || !strings.Contains(m.Fix, c.fix) {
				t.Fatalf("%+v", err)
			}
		})
	}
}
