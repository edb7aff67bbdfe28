package export

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/diff"
	"aicplan/sink/lint"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
	"aicplan/stages/importer"
)

// ring returns rows of a table that the plan declares.
func ring(latency float64) *stage.Dataset {
	declared := &catalog.Declaration{
		Name: "ring_perf", Family: "ring", Ops: []string{"ring"},
		Columns: []catalog.Field{
			{Name: "layout", Type: "string"}, {Name: "tokens", Type: "int64"}, {Name: "speed", Type: "float64",
				Better: "higher"},
			{Name: "latency", Type: "float64", Unit: "us"},
		},
		Key: []string{"layout", "tokens"}, Metrics: []string{"latency", "speed"},
	}
	return &stage.Dataset{
		Planned: table.NewRecord([]string{"tokens"}, []arrow.Array{table.Ints([]int64{2, 1, 1}, nil)}),
		Table: table.NewRecord([]string{"tokens", "layout", "kernel_source", "latency", "speed", "worker"}, []arrow.Array{
			table.Ints([]int64{2, 1, 1}, nil), table.Texts([]string{"1", "2", "1"}, nil), table.Constant("k", 3),
			table.Floats([]float64{latency, 2, 3}, nil), table.Floats([]float64{10, 20, 30}, nil), table.Constant("w0", 3),
		}),
		Info: stage.Info{Op: "ring", Perf: "ring_perf", Declared: declared, Params: []string{"tokens", "layout"},
			Framework: "VLLM", Version: "0.25.0", Device: "NVIDIA H200", System: "h200_sxm"},
	}
}

// TestDeclaredTable exports a declared table in every layout and format, and reads it back
// with lint, diff and import, which do not have the plan.
func TestDeclaredTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ layout, format, path string }{
		{"flat", CSV, "ring_perf.txt"},
		{"flat", Parquet, "ring_perf.parquet"},
		{"systems", CSV, "data/h200_sxm/vllm/0.25.0/ring_perf.txt"},
		{"families", Parquet, "data/h200_sxm/ring/vllm/0.25.0/ring_perf.parquet"},
	} {
		t.Run(c.layout+" "+c.format, func(t *testing.T) {
			t.Parallel()
			dir, other := t.TempDir(), t.TempDir()
			block := func() *Config {
				return config(func(b *Config) { b.Layout, b.Format = tree.Layout(c.layout), c.format })
			}
			mustRun(t, block(), dir, ring(1))
			mustRun(t, block(), other, ring(1.5))

			rec, err := tree.ReadFile(filepath.Join(dir, c.path))
			if err != nil {
				t.Fatal(err)
			}
			want := "framework version device op_name kernel_source layout tokens latency speed"
			if got := strings.Join(table.Names(rec), " "); got != want {
				t.Errorf("columns %s, want %s", got, want)
			}
			if layout, err := table.Strings(rec, "layout"); err != nil || !slices.Equal(layout.Values, []string{"1", "1", "2"}) {
				t.Errorf("rows in the order of the key, and text that looks like numbers: %v, %v", layout, err)
			}

			report, err := lint.Run(t.Context(), dir, lint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Findings {
				if f.Rule == "unknown_table" || f.Rule == "R4" {
					t.Errorf("lint: %+v", f)
				}
			}

			compared, err := diff.Paths(dir, other, diff.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(compared.Tables) != 1 || compared.Tables[0].Metric != "latency" ||
				!slices.Equal(compared.Tables[0].Key, []string{"layout", "tokens"}) {
				t.Errorf("diff: %+v", compared.Tables)
			}

			set, err := importer.Load(filepath.Join(dir, c.path), importer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if key := dedupe.KeyColumns(set.Data); set.Data.Info.Op != "ring" ||
				!slices.Equal(key, []string{"layout", "tokens"}) {
				t.Errorf("import: op %q, key %v", set.Data.Info.Op, key)
			}
		})
	}
}

// TestDeclaredTableErrors checks that rows of a declared table that lack a column, or a value, are refused.
func TestDeclaredTableErrors(t *testing.T) {
	t.Parallel()
	ds := ring(1)
	ds.Table = table.Drop(ds.Table, "layout")
	if _, err := run(t, config(nil), t.TempDir(), ds); err == nil ||
		!strings.Contains(err.Error(), "ring_perf needs the columns layout") {
		t.Error(err)
	}

	tab, _ := dedupe.PerfTable(ds)
	spaced := table.WithColumn(ring(1).Table, "layout", table.Texts([]string{"1", "2 ", "1"}, nil))
	if got := rules.Schema(spaced, tab, rules.SchemaOptions{Words: true}); len(got) != 1 ||
		!strings.Contains(got[0], `layout has spaces around "2 "`) {
		t.Errorf("%q", got)
	}

	// A metric that may be null is not zero without zero = true.
	zero := ring(1)
	zero.Info.Declared.Columns[2].Nullable = true
	zero.Table = table.WithColumn(zero.Table, "speed", table.Floats([]float64{10, 0, 30}, nil))
	if _, err := run(t, config(nil), t.TempDir(), zero); err == nil ||
		!strings.Contains(err.Error(), "speed is no measurement in some of 3 rows (1 zero)") {
		t.Error(err)
	}
}
