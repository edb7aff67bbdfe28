package export

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// everything reads all files below a folder.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return out
}

// TestExportIsAllOrNone: whatever is wrong with a sidecar, a refused export
// leaves every file as it was. The table used to be replaced first.
func TestExportIsAllOrNone(t *testing.T) {
	t.Parallel()
	families := func(c *Config) { c.Layout = tree.Families }
	folder := filepath.Join("data", "h200_sxm", "gemm", "trtllm", "1.3.0")
	edit := func(file, from, to string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, folder, file)
			text := read(t, path)
			if !strings.Contains(text, from) {
				t.Fatalf("%s has no %q:\n%s", file, from, text)
			}

			if err := os.WriteFile(path, []byte(strings.Replace(text, from, to, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}

	put := func(file, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, folder, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}

	reuse := func(c *Config) {
		families(c)
		c.Reuse = []ReuseBlock{{Table: "moe_perf", FromVersion: "1.2.0", Reason: "unchanged", ApprovedBy: "me"}}
	}
	for name, tt := range map[string]struct {
		spoil  func(t *testing.T, dir string)
		config func(*Config)
		data   func(*stage.Dataset)
		want   string
	}{
		"legacy":          {edit(tree.MetaFile, "provenance: collected", "provenance: legacy"), families, nil, "legacy"},
		"another runtime": {edit(tree.MetaFile, "framework: trtllm", "framework: vllm"), families, nil, "describes vllm"},
		"schema 2":        {edit(tree.MetaFile, "schema_version: 1", "schema_version: 2"), families, nil, "schema"},
		"another image": {edit(tree.MetaFile, "version: 1.3.0", "version: 1.3.0\n    image_digest: sha256:1"),
			families, func(ds *stage.Dataset) { ds.Info.ImageDigest = "sha256:2" }, "image"},
		"two documents": {edit(tree.MetaFile, "schema_version: 1",
			"schema_version: 1\nmore: 1\n---\nschema_version: 1"), families, nil, "several YAML documents"},
		"two of reuse": {put(tree.ReuseFile, "schema_version: 1\nreuse: []\n---\nowner: me\n"), reuse, nil,
			"several YAML documents"},
		"a name twice": {edit(tree.MetaFile, "schema_version: 1", "schema_version: 1\nmore: 1\nmore: 2"), families,
			nil, "already defined"},
		"damaged reuse": {put(tree.ReuseFile, "schema_version: [\n"), reuse, nil, tree.ReuseFile},
		"foreign reuse": {put(tree.ReuseFile, "schema_version: 9\n"), reuse, nil, "schema_version is 9"},
		"no such system": {func(*testing.T, string) {},
			func(c *Config) { families(c); c.SystemSpec = true; c.Version = "1.3.0" },
			func(ds *stage.Dataset) { ds.Info.System = "made_up" }, "no built-in spec"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mustRun(t, config(families), dir, gemm(order(3)))
			tt.spoil(t, dir)
			before := everything(t, dir)
			ds := gemm([]int{1, 2, 5})
			ds.Table = table.WithColumn(ds.Table, "latency", table.Constant(0.0999, 3))
			if tt.data != nil {
				tt.data(ds)
			}

			if _, err := run(t, config(tt.config), dir, ds); err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "nothing was written") {
				t.Errorf("error %v, want %q", err, tt.want)
			}

			after := everything(t, dir)
			for file, text := range before {
				if after[file] != text {
					t.Errorf("%s was changed", file)
				}
			}

			if len(after) != len(before) {
				t.Errorf("there are %d files, before there were %d", len(after), len(before))
			}
		})
	}
}

// TestSidecarsKeepUnknownKeys checks that comments and unknown keys survive in both sidecars.
func TestSidecarsKeepUnknownKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "data", "h200_sxm", "gemm", "trtllm", "1.3.0")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}

	before := `# reviewed by the data council
schema_version: 1
owner: data-council
reuse:
  # kernels did not change
  - table: moe_perf # the large one
    from_version: 1.2.0
    reason: same kernels # checked by hand
    approved_by: somebody
    ticket: PERF-42
  - table: zebra_perf
    from_version: 1.0.0
    reason: the same
    approved_by: me
`
	if err := os.WriteFile(filepath.Join(folder, tree.ReuseFile), []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}

	change := func(c *Config) {
		c.Layout = tree.Families
		c.Reuse = []ReuseBlock{
			{Table: "moe_perf", FromVersion: "1.2.5", Reason: "same kernels", ApprovedBy: "me"},
			{Table: "scale_matrix_perf", FromVersion: "1.2.0", Reason: "x", ApprovedBy: "me"},
		}
	}

	mustRun(t, config(change), dir, gemm(order(2)))
	got := read(t, folder, tree.ReuseFile)
	for _, want := range []string{"# reviewed by the data council", "owner: data-council",
		"# kernels did not change", "# the large one", "# checked by hand", "ticket: PERF-42", "from_version: 1.2.5",
		"zebra_perf"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is gone:\n%s", want, got)
		}
	}

	if at := strings.Index(got, "scale_matrix_perf"); at < strings.Index(got, "moe_perf") ||
		at > strings.Index(got, "zebra_perf") {
		t.Errorf("the new entry is not in its place:\n%s", got)
	}

	meta := filepath.Join(folder, tree.MetaFile)
	text := strings.NewReplacer("    rows: 2", "    rows: 2 # counted\n    note: by hand", "schema_version: 1",
		"# ours\nschema_version: 1").Replace(read(t, meta))
	if err := os.WriteFile(meta, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	mustRun(t, config(change), dir, gemm(order(3)))

	for _, want := range []string{"# ours", "rows: 3 # counted", "note: by hand"} {
		if got := read(t, meta); !strings.Contains(got, want) {
			t.Errorf("%q is gone:\n%s", want, got)
		}
	}
}

// TestInputsOfOneTableHaveKeysOfTheirOwn: two inputs with a row of one key gave
// a file with both rows.
func TestInputsOfOneTableHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	one, two := gemm([]int{0, 1}), gemm([]int{1, 2})
	if _, err := run(t, config(func(c *Config) { c.Value = pair() }), dir, one, two); err == nil ||
		!strings.Contains(err.Error(), "1 rows of the inputs have a key that an input before them has too, for example "+
			"gemm_dtype=bfloat16 m=2") {
		t.Errorf("error %v", err)
	}

	if got := everything(t, dir); len(got) != 0 {
		t.Errorf("files %v", got)
	}

	mustRun(t, config(func(c *Config) { c.Value = pair() }), dir, one, gemm([]int{4, 2}))
}

func pair() cty.Value { return cty.TupleVal([]cty.Value{refValue("gemm"), refValue("other")}) }
