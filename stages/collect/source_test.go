package collect

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

func TestChangedSource(t *testing.T) {
	now := runtimes.Source{Name: "gemm.py", Digest: "d2"}
	for _, tt := range []struct {
		from     map[string]int
		measured int
		address  string
		want     string
	}{
		{map[string]int{"gemm.py d1": 4}, 4, "collect.gemm", "gemm.py has changed since these rows were measured; -replace collect.gemm measures them again"},
		{map[string]int{"gemm.py d1": 2, "gemm.py d0": 1, "gemm.py d2": 3}, 6, "collect.gemm", "since 3 of these 6 rows were measured"},
		{map[string]int{"gemm.py d1": 2}, 6, "collect.gemm", "since 2 of these 6 rows were measured"}, // the others do not say
		{map[string]int{"gemm.py d1": 1}, 1, `module.a.collect.op["x"]`, `-replace 'module.a.collect.op["x"]' measures`},
		{map[string]int{"my gemm.py d2": 1}, 1, "collect.gemm", ""}, // renamed, not changed
		{nil, 4, "collect.gemm", ""},
	} {
		got := strings.Join(changedSource(now, tt.from, tt.measured, tt.address), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%v of %d: %q, want %q", tt.from, tt.measured, got, tt.want)
		}
	}
}

// A changed function changes neither key nor journal, and old records say
// nothing of it.
func TestSourceIsInNoKey(t *testing.T) {
	b := newBench(t, `
op = "gemm"
axis "m" { values = [1, 2] }
`)
	dir := t.TempDir()
	file := filepath.Join(dir, "gemm.py")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("def gemm(m, bench): return 1\n")
	b.runtime = &stage.Runtime{Name: "py", Kind: "python", Framework: "python", Address: "runtime.py", Path: []string{file}}
	c, _ := b.prepare("")
	pc := b.planContext()
	env := &runtimes.Environment{Framework: "python", Version: "3", Device: "cpu"}
	identity := func() string {
		key, err := json.Marshal(c.Fingerprint())
		if err != nil {
			t.Fatal(err)
		}
		extra, diags := c.KeyExtra(t.Context(), pc)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		more, err := json.Marshal(extra)
		if err != nil {
			t.Fatal(err)
		}
		journal, err := c.Context("gemm", env).Digest()
		if err != nil {
			t.Fatal(err)
		}
		return string(key) + string(more) + journal
	}
	before := identity()
	source, ok := c.sourceNow("gemm", "")
	if !ok {
		t.Fatal("the file is not found")
	}
	rec := &checkpoint.StageRecord{Sources: map[string]int{source.String(): 2}, Counts: json.RawMessage(`{"measured": 1, "reused": 1}`)}
	if w := c.Review(pc, rec); w != nil {
		t.Errorf("nothing has changed: %q", w)
	}
	write("def gemm(m, bench): return 2\n")
	if identity() != before {
		t.Error("a changed function measures everything again")
	}
	if w := c.Review(pc, rec); len(w) != 1 || !strings.Contains(w[0], "gemm.py has changed since these rows were measured; -replace collect.c ") {
		t.Errorf("warnings %q", w)
	}
	rec.Sources = nil
	if w := c.Review(pc, rec); w != nil {
		t.Errorf("a record that does not know: %q", w)
	}
}
