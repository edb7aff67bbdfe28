package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"pgregory.net/rapid"

	"aicplan/sink/table"
)

func TestDirs(t *testing.T) {
	p := PlaceOf(Place{System: "h200_sxm", Backend: "trtllm", Version: "1.3.0", Table: "gemm_perf.txt"})
	for layout, want := range map[Layout]string{
		Flat: ".", Systems: "data/h200_sxm/trtllm/1.3.0", Families: "data/h200_sxm/gemm/trtllm/1.3.0",
	} {
		if got, err := layout.Dir(p); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", layout, got, err, want)
		}
	}
	nccl := PlaceOf(Place{System: "h200_sxm", Backend: "trtllm", Version: "2.29.2", Table: "nccl_perf"})
	if got, _ := Families.Dir(nccl); got != "data/h200_sxm/comm/nccl/2.29.2" {
		t.Errorf("collectives lie in %q", got)
	}
	if got, _ := Systems.Dir(nccl); got != "data/h200_sxm/nccl/2.29.2" {
		t.Errorf("collectives lie in %q", got)
	}
	for _, bad := range []Place{{Backend: "trtllm", Version: "1"}, {System: "a/b", Backend: "x", Version: "1"},
		{System: "..", Backend: "x", Version: "1"}, {System: "h", Backend: "x", Version: `1\2`}} {
		if dir, err := Systems.Dir(bad); err == nil {
			t.Errorf("%+v lies in %q", bad, dir)
		}
	}
	if _, err := Layout("other").Dir(p); err == nil {
		t.Error("an unknown layout has folders")
	}
}

// What a layout writes is what a scan finds.
func TestWalk(t *testing.T) {
	root := t.TempDir()
	p := PlaceOf(Place{System: "h200_sxm", Backend: "trtllm", Version: "1.3.0", Table: "gemm_perf"})
	put := func(rel string) {
		t.Helper()
		path := filepath.Join(root, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sys, _ := Systems.Dir(p)
	fam, _ := Families.Dir(p)
	for _, rel := range []string{sys + "/gemm_perf.txt", fam + "/gemm_perf.parquet", fam + "/" + MetaFile,
		fam + "/" + ReuseFile, fam + "/INCOMPLETE.txt", "h200_sxm.yaml", ".git/x_perf.txt", "notes.txt", "loose_perf.csv"} {
		put(rel)
	}
	scan, err := Walk(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(scan.Entries) != 3 || len(scan.Sidecars) != 2 || len(scan.Markers) != 1 || len(scan.Other) != 2 {
		t.Fatalf("%+v", scan)
	}
	for i, want := range []struct {
		layout Layout
		place  Place
		format string
	}{{Families, p, "parquet"}, {Systems, p, "csv"}} {
		if e := scan.Entries[i]; e.Layout != want.layout || e.Place != want.place || e.Format != want.format {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
	if e := scan.Entries[2]; e.Layout != Flat || e.System != "" || e.Dir() != "." {
		t.Errorf("%+v", e)
	}
	// A part of a database keeps its meaning.
	part, err := Walk(filepath.Join(root, filepath.FromSlash(fam)))
	if err != nil || part.Entries[0].System != "h200_sxm" || part.Entries[0].Version != "1.3.0" {
		t.Errorf("%v %+v", err, part)
	}
	if _, err := Walk(filepath.Join(root, "notes.txt")); err == nil {
		t.Error("a file is scanned as a folder")
	}
}

func rows(names []string, cols ...arrow.Array) arrow.Record { return table.NewRecord(names, cols) }

func TestMerge(t *testing.T) {
	old := rows([]string{"m", "latency", "power"}, table.Ints([]int64{1, 2, 2, 3}, nil),
		table.Floats([]float64{1, 2, 2.5, 3}, nil), table.Constant(100.0, 4))
	now := rows([]string{"m", "window_size", "latency"}, table.Ints([]int64{2, 4}, nil), table.Ints([]int64{0, 128}, nil),
		table.Floats([]float64{20, 40}, nil))
	out, rep, err := Merge(old, now, []string{"m", "window_size"})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Added != 1 || rep.Replaced != 2 || rep.Kept != 2 || strings.Join(rep.Columns, " ") != "-power +window_size" {
		t.Errorf("%+v", rep)
	}
	if rep.Text() != "1 rows added, 2 replaced, 2 kept, columns -power +window_size" {
		t.Errorf("text %q", rep.Text())
	}
	want := rows([]string{"m", "window_size", "latency", "power"},
		table.Ints([]int64{2, 4, 1, 3}, nil), table.Ints([]int64{0, 128, 0, 0}, nil), table.Floats([]float64{20, 40, 1, 3},
			nil),
		table.Floats([]float64{0, 0, 100, 100}, []bool{false, false, true, true}))
	if !want.Schema().Equal(out.Schema()) || !array.RecordEqual(want, out) {
		t.Errorf("%v -> %v", want, out)
	}
	// The old rows get the window too when they lack it and are kept.
	out, _, err = Merge(now, rows([]string{"m", "latency"}, table.Ints([]int64{9}, nil), table.Floats([]float64{9}, nil)),
		[]string{"m", "window_size"})
	if err != nil {
		t.Fatal(err)
	}
	if w, err := table.Int64s(out, "window_size"); err != nil || w.Nulls() != 0 {
		t.Errorf("window_size %+v %v", w, err)
	}
}

func TestMergeNeverDropsRowsOnDrift(t *testing.T) {
	old := rows([]string{"m", "latency"}, table.Ints([]int64{1}, nil), table.Floats([]float64{1}, nil))
	for _, now := range []arrow.Record{
		rows([]string{"m", "n", "latency"}, table.Ints([]int64{2}, nil), table.Ints([]int64{2}, nil),
			table.Floats([]float64{1}, nil)),
		rows([]string{"m", "latency"}, table.Texts([]string{"two"}, nil), table.Floats([]float64{1}, nil)),
	} {
		if out, rep, err := Merge(old, now, []string{"m", "n"}); err == nil {
			t.Errorf("merged to %v rows (%+v), want an error that changes nothing", out.NumRows(), rep)
		}
	}
}

// No key is lost and new rows win, for any two tables.
func TestMergeProperty(t *testing.T) {
	gen := rapid.SliceOfN(rapid.Int64Range(0, 20), 0, 30)
	rapid.Check(t, func(rt *rapid.T) {
		build := func(keys []int64, lat float64) arrow.Record {
			return rows([]string{"m", "latency"}, table.Ints(keys, nil), table.Constant(lat, len(keys)))
		}
		a, b := gen.Draw(rt, "old"), gen.Draw(rt, "new")
		if len(b) == 0 {
			return
		}
		out, rep, err := Merge(build(a, 1), build(b, 2), []string{"m"})
		if err != nil {
			rt.Fatal(err)
		}
		ms, _ := table.Int64s(out, "m")
		lat, _ := table.Float64s(out, "latency")
		got := map[int64]float64{}
		for i, m := range ms.Values {
			if v, ok := got[m]; ok && v != lat.Values[i] {
				rt.Fatalf("key %d has rows of both tables", m)
			}
			got[m] = lat.Values[i]
		}
		for _, m := range a {
			if _, ok := got[m]; !ok {
				rt.Fatalf("key %d is lost", m)
			}
		}
		for _, m := range b {
			if got[m] != 2 {
				rt.Fatalf("key %d has the old row", m)
			}
		}
		if rep.Kept+rep.Replaced != len(a) || int(out.NumRows()) != rep.Kept+len(b) {
			rt.Fatalf("%+v of %d and %d rows gives %d", rep, len(a), len(b), out.NumRows())
		}
	})
}

// TestProvenanceOfAFolder checks that the provenance of a folder follows from its tables.
func TestProvenanceOfAFolder(t *testing.T) {
	imported, measured := TableMeta{Status: Complete, ImportedRows: 3}, TableMeta{Status: Complete}
	for _, tt := range []struct {
		before, want string // the line of the word
		entries      []TableMeta
	}{
		{"provenance: collected # by hand", "provenance: mixed # by hand", []TableMeta{imported}},
		{"provenance: collected", "provenance: collected", []TableMeta{imported, measured}},
		{"provenance: mixed", "provenance: collected", []TableMeta{measured}},
		{"provenance: audited", "provenance: audited", []TableMeta{measured}},
		{"# nothing said", "# nothing said", []TableMeta{measured}},
		{"# nothing said", "provenance: mixed", []TableMeta{imported}},
	} {
		path := filepath.Join(t.TempDir(), MetaFile)
		text := "schema_version: 1\n" + tt.before +
			"\nruntime:\n  framework: vllm\n  version: \"1\"\ntables:\n  moe_perf:\n    status: complete\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, e := range tt.entries {
			if err := updateMeta(path, Runtime{Framework: "vllm", Version: "1"}, "gemm_perf", e); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), tt.want+"\n") ||
			strings.Count(string(data), "provenance:") != strings.Count(tt.want, "provenance:") {
			t.Errorf("%q and %d tables: %v\n%s", tt.before, len(tt.entries), err, data)
		}
	}
}

func TestMetaKeepsWhatItDoesNotKnow(t *testing.T) {
	path := filepath.Join(t.TempDir(), MetaFile)
	before := `# who wrote this
schema_version: 1
provenance: collected
runtime:
  framework: trtllm
  version: 1.3.0
tables:
  # kept
  moe_perf:
    status: complete
  zebra_perf:
    status: partial
    note: by hand
`
	if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	rt := Runtime{Framework: "trtllm", Version: "1.3.0"}
	n := int64(3)
	for _, name := range []string{"gemm_perf", "zebra_perf", "gemm_perf"} {
		if err := updateMeta(path, rt, name, TableMeta{Rows: &n, Status: Complete}); err != nil {
			t.Fatal(err)
		}
	}
	data, _ := os.ReadFile(path)
	want := `# who wrote this
schema_version: 1
provenance: collected
runtime:
  framework: trtllm
  version: 1.3.0
tables:
  gemm_perf:
    rows: 3
    status: complete
  # kept
  moe_perf:
    status: complete
  zebra_perf:
    status: complete
    note: by hand
    rows: 3
`
	if string(data) != want {
		t.Errorf("sidecar:\n%s\nwant:\n%s", data, want)
	}
	for _, tt := range []struct {
		name string
		text string
		rt   Runtime
		want string
	}{
		{"another version", before, Runtime{Framework: "trtllm", Version: "1.4"}, "describes trtllm 1.3.0"},
		{"legacy", strings.Replace(before, "collected", "legacy", 1), rt, "legacy"},
		{"schema 2", strings.Replace(before, "schema_version: 1", "schema_version: 2", 1), rt, "rows must be there"},
		{"another image", strings.Replace(before, "  version: 1.3.0", "  version: 1.3.0\n  image_digest: sha256:1", 1),
			Runtime{Framework: "trtllm", Version: "1.3.0", ImageDigest: "sha256:2"}, "sha256:1"},
		{"garbage", "tables: [", rt, "not a valid"},
		{"bad status", strings.Replace(before, "partial", "finished", 1), rt, "finished"},
		{"no runtime", "schema_version: 1\n", rt, "runtime.framework"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := updateMeta(path, tt.rt, "gemm_perf", TableMeta{Status: Complete}); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
		if data, _ := os.ReadFile(path); string(data) != tt.text {
			t.Errorf("%s: the file was changed", tt.name)
		}
	}
	if err := os.WriteFile(path, []byte(strings.Replace(before, "collected", "legacy", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := updateMeta(path, rt, "gemm_perf", TableMeta{Status: Complete}); err == nil ||
		!strings.Contains(err.Error(), "provenance: legacy") {
		t.Errorf("error %v", err)
	}
}

func TestReuse(t *testing.T) {
	path := filepath.Join(t.TempDir(), ReuseFile)
	for _, e := range []ReuseEntry{{"b_perf", "1", "r", "me"}, {"a_perf", "1", "r", "me"}, {"b_perf", "2", "r", "me"}} {
		if err := updateReuse(path, []ReuseEntry{e}); err != nil {
			t.Fatal(err)
		}
	}
	data, _ := os.ReadFile(path)
	r, err := ParseReuse(data)
	if err != nil || len(r.Entries) != 2 || r.Entries[0].Table != "a_perf" || r.Entries[1].FromVersion != "2" {
		t.Errorf("%v\n%s", err, data)
	}
	if err := updateReuse(path, []ReuseEntry{{Table: "c_perf", FromVersion: "1", Reason: " "}}); err == nil ||
		!strings.Contains(err.Error(), "no reason") {
		t.Errorf("error %v", err)
	}
	if _, err := ParseReuse([]byte("schema_version: 2")); err == nil {
		t.Error("an unknown schema is read")
	}
}

func TestCSVWithPowerInSomeRows(t *testing.T) {
	rec := rows([]string{"m", "power"}, table.Ints([]int64{1, 2}, nil), table.Floats([]float64{1, 0}, []bool{true, false}))
	if err := CheckCSV(rec); err == nil || !strings.Contains(err.Error(), "power in some rows only: 1 of 2 rows") {
		t.Errorf("error %v", err)
	}
	if err := CheckCSV(table.Drop(rec, "power")); err != nil {
		t.Error(err)
	}
}

func FuzzParseMeta(f *testing.F) {
	f.Add([]byte("schema_version: 1\nruntime: {framework: a, version: b}\ntables: {x: {status: complete, rows: 3}}\n"))
	f.Add([]byte("tables: [1, 2]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMeta(data)
		if err == nil && (m.Runtime.Framework == "" || m.SchemaVersion < 1) {
			t.Errorf("accepted %+v", m)
		}
		path := filepath.Join(t.TempDir(), MetaFile)
		if os.WriteFile(path, data, 0o644) != nil {
			return
		}
		n := int64(1)
		if err != nil || updateMeta(path, m.Runtime, "gemm_perf", TableMeta{Rows: &n, Status: Complete}) != nil {
			return
		}
		back, err := ReadMeta(path)
		if err != nil || back.Tables["gemm_perf"].Rows == nil {
			t.Errorf("after an update: %v %+v", err, back)
		}
	})
}

// updateMeta sets the entry of a table in the sidecar at path.
func updateMeta(path string, rt Runtime, table string, entry TableMeta) error {
	return update(path, func(data []byte) ([]byte,
		error) {
		return NextMeta(data, path, rt, Update{Table: table, Entry: entry})
	})
}

func updateReuse(path string, entries []ReuseEntry) error {
	return update(path, func(data []byte) ([]byte, error) { return NextReuse(data, path, entries) })
}

func update(path string, next func([]byte) ([]byte, error)) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if data, err = next(data); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
