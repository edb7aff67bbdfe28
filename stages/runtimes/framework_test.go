package runtimes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/engine/stage"
	"aicplan/sink/scripttest"
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

// stand-in interpreters: scripts that answer as python would.
func interpreter(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python3")
	scripttest.Write(t, path, "#!/bin/sh\n"+body+"\n")
	return path
}

func TestInterpreterThatDoesNotAnswer(t *testing.T) {
	p := NewPools(Kinds())
	defer p.Close()
	for _, python := range []string{interpreter(t, "exit 1"), interpreter(t, "printf '?'")} {
		text, err := p.Framework(t.Context(), &stage.Runtime{Address: "runtime.x", Kind: "python", Package: "acme", Requires: ">=9", Python: python})
		if err != nil || !strings.Contains(text, "a worker will") {
			t.Errorf("%q, %v: nobody knows that it is missing", text, err)
		}
	}
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
		{"too old", interpreter(t, "printf 1.2.0"), "1.2.0 is installed, but runtime.trtllm requires >=1.3.0rc20", "nvcr/tensorrt-llm:1"},
		{"not installed", interpreter(t, "exit 0"), "tensorrt_llm is not installed", "nvcr/tensorrt-llm:1"},
		{"not executable", notExecutable(t), "cannot be run", "chmod +x"},
		{"no interpreter", "/nowhere/python3", "/nowhere/python3 is not on this machine", "nvcr/tensorrt-llm:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewPools(Kinds())
			defer p.Close()
			text, err := p.Framework(t.Context(), &stage.Runtime{
				Address: "runtime.trtllm", Kind: "python", Package: "tensorrt_llm", Requires: ">=1.3.0rc20", Python: c.python, Image: "nvcr/tensorrt-llm:1",
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
