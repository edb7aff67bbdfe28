package runtimes

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// TestEntryIsTheFileOfTheOp checks that the entry is the file from which the worker takes the function, and that
// there is none for installed modules.
func TestEntryIsTheFileOfTheOp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plans[1]") // a pattern that the name of the folder does not match
	files := map[string]string{
		"ops/a.py": "# def gemm(m, bench): is only spoken of\ndef gemm(m):\n    pass\n\ndef helper(gemm, bench=None): pass\n",
		"ops/b.py": "import os\n\n@cached(size=1)\ndef gemm(\n    m, kind=pick(1, (2, 3)),  # a default\n    *, " +
			"bench,\n):\n    return {}\n",
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
		got, ok := pythonKind().Entry(rt, dir, tt.op, tt.bind, "")
		if ok != (tt.want != "") {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
		if ok && (len(got.Files) != 1 || got.Files[0] != filepath.Join(dir, tt.want)) {
			t.Errorf("%s: %v, want %s", name, got.Files, tt.want)
		}
	}
	if cudaKind().Entry != nil {
		t.Error("a cuda runtime has code")
	}
}

// TestDigestIgnoresComments checks that comments and the layout of lines are not a part of the code, and that
// everything else is, such as texts that an op reads from its docstring.
func TestDigestIgnoresComments(t *testing.T) {
	t.Parallel()
	const base = "import os\n\ndef f(m, bench):\n    s = \"a # b\"\n    return g(m,\n             \"x\")\n"
	for name, text := range map[string]string{
		"comments": "# new\nimport os  # why\n\ndef f(m, bench):  # f\n    # here\n    s = \"a # b\"\n    return " +
			"g(m,  # m\n             \"x\")\n",
		"blank lines": "import os\n\n\n\ndef f(m, bench):\n\n    s = \"a # b\"   \n    return g(m,\n             " +
			"\"x\")\n\n",
		"line endings":   strings.ReplaceAll(base, "\n", "\r\n"),
		"old line ends":  strings.ReplaceAll(base, "\n", "\r"),
		"no end of line": strings.TrimSuffix(base, "\n"),
	} {
		if got := withoutComments(text); got != withoutComments(base) {
			t.Errorf("%s: %q, want %q", name, got, withoutComments(base))
		}
	}
	for name, text := range map[string]string{
		"a string":                     strings.Replace(base, "a # b", "a # c", 1),
		"a docstring":                  strings.Replace(base, "    s =", "    \"\"\"doc\"\"\"\n    s =", 1),
		"an argument":                  strings.Replace(base, "\"x\"", "\"y\"", 1),
		"an indent":                    strings.Replace(base, "    return", "  return", 1),
		"code after a carriage return": strings.Replace(base, "import os\n", "import os # x\rimport sys\n", 1),
		"a prefixed string":            strings.Replace(base, "\"a # b\"", "f\"a # b\"", 1),
	} {
		if withoutComments(text) == withoutComments(base) {
			t.Errorf("%s is the same: %q", name, withoutComments(text))
		}
	}
	for _, text := range []string{"'", "\"\"\"", "x = '\\", "(((", ")))", "\\", "# no end"} {
		withoutComments(text) // must return
	}
}

// TestCodeFollowsReportedModules checks that the modules that workers have reported are read again for the next
// plan, and that another file of the op drops them.
func TestCodeFollowsReportedModules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sum := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := sha256.Sum256(data)
		return hex.EncodeToString(s[:])
	}

	op, helper, other := write("ops/op.py", "import helper\n"), write("ops/helper.py", "F = 1\n"),
		write("lib/other.py", "G = 1\n")
	e := Entry{Files: []string{op}, Roots: []string{filepath.Dir(op)}}
	first := CodeNow(e, func(string) *Code { return nil }, "3.11.2")
	report := &worker.Code{Packages: map[string]string{"torch": "2.1"}}
	for path, module := range map[string]string{op: "", helper: "helper", other: "other"} {
		report.Files = append(report.Files, worker.CodeFile{Module: module, Path: path, SHA256: sum(path)})
	}
	seen, err := CodeReported(e, report)
	if err != nil || len(seen.Files) != 3 || seen.Entry != first.Entry || seen.String() == first.String() {
		t.Fatalf("%v: %+v", err, seen)
	}

	now := func() string { return CodeNow(e, func(string) *Code { return seen }, "3.11.2").String() }
	if now() != seen.String() {
		t.Errorf("nothing changed: %s, want %s", now(), seen)
	}
	for _, path := range []string{helper, other} {
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(strings.TrimPrefix(path, dir), "F = 22\n")
		if now() == seen.String() {
			t.Errorf("another %s is not noticed", path)
		}
		if _, err := CodeReported(e, report); err == nil || !strings.Contains(err.Error(), path+" has changed") {
			t.Errorf("a report of the earlier %s: %v", path, err)
		}
		write(strings.TrimPrefix(path, dir), string(old))
	}

	// The extension module of this interpreter comes first, and that of another one does not count.
	write("ops/helper.cpython-310-x86_64-linux-gnu.so", "ELF")
	if now() != seen.String() {
		t.Error("an extension module of another interpreter counts")
	}
	built := write("ops/helper.cpython-311-x86_64-linux-gnu.so", "ELF")
	if now() == seen.String() {
		t.Error("an extension module that comes first is not noticed")
	}
	if err := os.Remove(built); err != nil {
		t.Fatal(err)
	}

	more, err := seen.Covers(report)
	if more || err != nil {
		t.Errorf("the same report: %v, %v", more, err)
	}
	report.Packages["numpy"] = "2.0"
	if more, err := seen.Covers(report); !more || err != nil {
		t.Errorf("another distribution: %v, %v", more, err)
	}
	report.Packages["torch"] = "2.2"
	if _, err := seen.Covers(report); err == nil || !strings.Contains(err.Error(), "torch (2.1, now 2.2)") {
		t.Errorf("another version: %v", err)
	}

	write("ops/op.py", "import os\n")
	if c := CodeNow(e, func(string) *Code { return seen }, "3.11.2"); len(c.Files) != 1 || c.Packages != nil {
		t.Errorf("another file of the op keeps %+v", c)
	}
	if err := os.Remove(op); err != nil {
		t.Fatal(err)
	}
	if c := CodeNow(e, func(string) *Code { return seen }, "3.11.2"); c != seen {
		t.Errorf("without the file of the op: %+v", c)
	}
}

// TestEntryOfVersions checks that the framework's version selects the collector.
func TestEntryOfVersions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"gemm.py", "gemm_old.py"} {
		path := filepath.Join(dir, "root", "collector", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("def run(): pass\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	type m = map[string]any
	routes := m{"run": "run", "versions": []any{m{"min": "1.0", "module": "collector.gemm_old"},
		m{"min": "1.10", "module": "collector.gemm"}}}
	rt := &stage.Runtime{Kind: "python", CollectorRoot: "root"}
	for version, want := range map[string]int{"1.9.0": 1, "1.10.0": 1, "": 2} {
		e, ok := pythonKind().Entry(rt, dir, "gemm", routes, version)
		if !ok || len(e.Files) != want || want == 1 && (filepath.Base(e.Files[0]) == "gemm.py") != (version == "1.10.0") {
			t.Errorf("version %q: %v", version, e.Files)
		}
	}
	if e, ok := pythonKind().Entry(rt, t.TempDir(), "gemm", routes, "1.9"); ok {
		t.Errorf("a checkout that is not here: %v", e)
	}
}
