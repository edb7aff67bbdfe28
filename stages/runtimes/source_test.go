package runtimes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/engine/stage"
)

// TestSourceOf checks that the source is the file from which the worker takes the function, and that
// there is none for installed modules.
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
		got, ok := pythonKind().Source(rt, dir, tt.op, tt.bind, "")
		if ok != (tt.want != "") {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
		if !ok {
			continue
		}
		if want := filepath.Base(tt.want); got.Name != want || len(got.Digest) != 16 {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
	cuda := *rt
	cuda.Kind = "cuda"
	if s, ok := cudaKind().Source(&cuda, dir, "gemm", nil, ""); ok {
		t.Errorf("a cuda runtime: %v", s)
	}
}

// Only code that runs is part of an op's meaning.
func TestMeaning(t *testing.T) {
	const base = "import os\n\ndef f(m, bench):\n    s = \"a # b\"\n    return g(m,\n             \"x\")\n"
	for name, text := range map[string]string{
		"comments":       "# new\nimport os  # why\n\ndef f(m, bench):  # f\n    # here\n    s = \"a # b\"\n    return g(m,  # m\n             \"x\")\n",
		"blank lines":    "import os\n\n\n\ndef f(m, bench):\n\n    s = \"a # b\"   \n    return g(m,\n             \"x\")\n\n",
		"docstrings":     "\"\"\"Module\n# no code\n\"\"\"\nimport os\n\ndef f(m, bench):\n    'what it does'\n    s = \"a # b\"\n    return g(m,\n             \"x\")\n",
		"line endings":   "import os\r\n\r\ndef f(m, bench):\r\n    s = \"a # b\"\r\n    return g(m,\r\n             \"x\")\r\n",
		"no end of line": "import os\ndef f(m, bench):\n    s = \"a # b\"\n    return g(m,\n             \"x\")",
	} {
		if got := meaning(text); got != meaning(base) {
			t.Errorf("%s: %q, want %q", name, got, meaning(base))
		}
	}
	for name, text := range map[string]string{
		"a string":                strings.Replace(base, "a # b", "a # c", 1),
		"an argument":             strings.Replace(base, "\"x\"", "\"y\"", 1),
		"a string among brackets": strings.Replace(base, "\"x\")", "\"x\"\n\"y\")", 1),
		"an indent":               strings.Replace(base, "    return", "  return", 1),
		"a quote in a string":     strings.Replace(base, "\"a # b\"", "'a\\' # b'", 1),
		"a prefixed string":       strings.Replace(base, "\"a # b\"", "f\"a # b\"", 1),
	} {
		if meaning(text) == meaning(base) {
			t.Errorf("%s is the same: %q", name, meaning(text))
		}
	}
	for _, text := range []string{"'", "\"\"\"", "x = '\\", "(((", ")))", "\\", "# no end"} {
		meaning(text) // must return
	}
}

// The modules that an op imports from its folder are part of its source, by their relative paths. Other
// modules are not.
func TestSourceFollowsImports(t *testing.T) {
	files := map[string]string{
		"ops/op.py":     "import helper, os\nfrom pkg.deep import one\nfrom pkg import (two,\n    three as t)\ndef gemm(m, bench):\n    import late, \\\n        later\n    importlib.import_module(\n        'named').f\n    import native\n    return helper.f(m)\n",
		"ops/helper.py": "from other import *\nF = 1\n",
		"ops/other.py":  "G = 1\n",
		"ops/late.py":   "L = 1\n",
		"ops/later.py":  "L = 2\n",
		"ops/named.py":  "N = 1\n",
		"ops/native.cpython-311-x86_64-linux-gnu.so": "\x7fELF",
		"ops/native_other.so":                        "\x7fELF",
		"ops/unused.py":                              "U = 1\n",
		"ops/pkg/__init__.py":                        "from . import rel\n",
		"ops/pkg/rel.py":                             "R = 1\n",
		"ops/pkg/two.py":                             "T = 1\n",
		"ops/pkg/deep/one.py":                        "from ..rel import R\nO = 1\n",
		"root/collector/helper.py":                   "H = 1\n",
		"root/collector/gemm.py":                     "from helper import log_perf\nfrom collector.common import x\ndef run(): pass\ndef gemm(): pass\n",
		"root/collector/gemm_old.py":                 "def run(): pass\n",
		"root/collector/common.py":                   "X = 1\n",
	}
	write := func(dir, name, text string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fill := func() string {
		dir := t.TempDir()
		for name, text := range files {
			write(dir, name, text)
		}
		return dir
	}
	type m = map[string]any
	routes := m{"run": "run", "versions": []any{m{"min": "1.0", "module": "collector.gemm_old"}, m{"min": "1.10", "module": "collector.gemm"}}}
	own := func(dir string) (OpFile, bool) {
		return pythonKind().Source(&stage.Runtime{Kind: "python", Path: []string{"ops"}}, dir, "gemm", nil, "")
	}
	hosted := func(dir string, bind any, version string) (OpFile, bool) {
		return pythonKind().Source(&stage.Runtime{Kind: "python", CollectorRoot: "root"}, dir, "gemm", bind, version)
	}
	both := func(dir string) [3]string {
		a, ok1 := own(dir)
		b, ok2 := hosted(dir, m{"run": "run", "module": "collector.gemm"}, "")
		c, ok3 := hosted(dir, routes, "1.9.0")
		if !ok1 || !ok2 || !ok3 {
			t.Fatal(a, b, c)
		}
		return [3]string{a.Digest, b.Digest, c.Digest}
	}
	base := both(fill())
	for name, hits := range map[string][3]bool{
		"ops/op.py": {true}, "ops/helper.py": {true}, "ops/other.py": {true}, "ops/late.py": {true}, "ops/later.py": {true}, "ops/named.py": {true}, "ops/unused.py": {},
		"ops/native.cpython-311-x86_64-linux-gnu.so": {true}, "ops/native_other.so": {},
		"ops/pkg/__init__.py": {true}, "ops/pkg/rel.py": {true}, "ops/pkg/two.py": {true}, "ops/pkg/deep/one.py": {true},
		"root/collector/helper.py": {}, "root/collector/gemm.py": {false, true, false}, "root/collector/common.py": {false, true, false},
		"root/collector/gemm_old.py": {false, false, true},
	} {
		dir := fill()
		write(dir, name, files[name]+"\nMORE = 2\n")
		now := both(dir)
		for i, want := range hits {
			if (now[i] != base[i]) != want {
				t.Errorf("%s changed: source %d changed is %v, want %v", name, i, !want, want)
			}
		}
		if write(dir, name, files[name]+"\n# a comment\n"); strings.HasSuffix(name, ".so") {
			continue
		}
		if both(dir) != base {
			t.Errorf("a comment in %s changes a source", name)
		}
	}
	if s, ok := hosted(fill(), routes, "1.10.0rc1"); !ok || s.Name != "gemm_old.py" && s.Name != "gemm.py" {
		t.Errorf("%v, %v", s, ok)
	}
	if s, ok := hosted(t.TempDir(), routes, "1.9"); ok {
		t.Errorf("a checkout that is not here: %v", s)
	}
}
