package runtimes

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"aicplan/engine/stage"
)

// TestSourceOf finds the file that the worker takes the function from, and
// none where the worker would take it from elsewhere.
func TestSourceOf(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"ops/a.py":  "# def gemm(m, bench): is only spoken of\ndef gemm(m):\n    pass\n\ndef helper(gemm, bench=None): pass\n",
		"ops/b.py":  "import os\n\n@cached(size=1)\ndef gemm(\n    m, kind=pick(1, (2, 3)),  # a default\n    *, bench,\n):\n    return {}\n",
		"ops/c.py":  "class X:\n    def moe(self, bench): pass\n",
		"ops/d.txt": "def moe(bench): pass\n",
		"one.py":    "def kernel(m, bench): pass\n",
		"own.py":    "def shape(m, workbench): pass\ndef other(bench): pass\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	type m = map[string]any
	rt := &stage.Runtime{Kind: "python", Path: []string{"nowhere", "ops", filepath.Join(dir, "own.py"), "."}}
	for name, tt := range map[string]struct {
		op   string
		bind any
		want string
	}{
		"defined below path":            {op: "gemm", want: "ops/b.py"},
		"under another name":            {op: "mine", bind: m{"function": "gemm"}, want: "ops/b.py"},
		"a method is no op":             {op: "moe"},
		"nor is one without bench":      {op: "shape"},
		"a file of path":                {op: "other", want: "own.py"},
		"a file that is named":          {op: "x", bind: m{"file": "one.py", "function": "kernel"}, want: "one.py"},
		"in a folder of path":           {op: "x", bind: m{"file": "a.py"}, want: "ops/a.py"},
		"an absolute one":               {op: "x", bind: m{"file": filepath.Join(dir, "one.py")}, want: "one.py"},
		"one that is not there":         {op: "x", bind: m{"file": "lost.py"}},
		"a collector":                   {op: "gemm", bind: m{"module": "collector.gemm", "run": "gemm"}},
		"a collector by version":        {op: "gemm", bind: m{"versions": []any{}, "run": "gemm"}},
		"a function of another package": {op: "gemm", bind: m{"module": "torch.nn"}},
	} {
		got, ok := NewPools(Kinds()).SourceOf(rt, dir, tt.op, tt.bind)
		if ok != (tt.want != "") {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
		if !ok {
			continue
		}
		sum := sha256.Sum256([]byte(files[tt.want]))
		if want := (Source{filepath.Base(tt.want), hex.EncodeToString(sum[:8])}); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	cuda := *rt
	cuda.Kind = "cuda"
	if s, ok := NewPools(Kinds()).SourceOf(&cuda, dir, "gemm", nil); ok {
		t.Errorf("a cuda runtime: %v", s)
	}
}
