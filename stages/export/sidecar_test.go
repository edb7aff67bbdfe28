package export

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

func TestFamiliesLayoutAndSidecars(t *testing.T) {
	dir := t.TempDir()
	change := func(c *Config) {
		c.Layout = tree.Families
		c.Reuse = []ReuseBlock{{Table: "computescale_perf", FromVersion: "1.2.0", Reason: "same kernels",
			ApprovedBy: "somebody"}}
	}

	ds := gemm(order(4))
	ds.Info.ImageDigest, ds.Info.Image = "sha256:abc", "trtllm:1.3.0"
	out := mustRun(t, config(change), dir, ds)
	folder := filepath.Join(dir, "data", "h200_sxm", "gemm", "trtllm", "1.3.0")
	rec, err := tree.ReadFile(filepath.Join(folder, "gemm_perf.parquet"))
	if err != nil {
		t.Fatal(err)
	}

	if rec.NumRows() != 4 {
		t.Errorf("%d rows", rec.NumRows())
	}

	meta, err := tree.ReadMeta(filepath.Join(folder, tree.MetaFile))
	if err != nil {
		t.Fatal(err)
	}

	entry := meta.Tables["gemm_perf"]

	if meta.Provenance != "collected" || meta.Runtime.Framework != "trtllm" || meta.Runtime.ImageDigest != "sha256:abc" {
		t.Errorf("sidecar %+v", meta)
	}

	if entry.Status != tree.Complete || entry.Rows == nil || *entry.Rows != 4 || entry.CollectedAt != "2026-03-04" ||
		entry.DataHash != out.Artifacts[0].Digest || entry.CasePlanHash == "" ||
		entry.CasePlanHash == tree.EmptyPlanHash || entry.CollectorHash == "" {
		t.Errorf("entry %+v", entry)
	}

	if got := read(t, folder, tree.ReuseFile); !strings.Contains(got, "from_version: 1.2.0") {
		t.Errorf("reuse:\n%s", got)
	}

	// The hashes mean something: they follow the plan and the environment.
	other := gemm(order(5))
	other.Info.Env = map[string]string{"driver": "590.1", "hostname": "a"}
	mustRun(t, config(change), dir, other)

	meta2, err := tree.ReadMeta(filepath.Join(folder, tree.MetaFile))
	if err != nil {
		t.Fatal(err)
	}

	entry2 := meta2.Tables["gemm_perf"]
	if entry2.CasePlanHash == entry.CasePlanHash || entry2.CollectorHash == entry.CollectorHash {
		t.Errorf("hashes of another plan and driver are the same: %+v", entry2)
	}

	other.Info.Env["hostname"] = "b"
	mustRun(t, config(change), dir, other)

	if meta3, _ := tree.ReadMeta(filepath.Join(folder,
		tree.MetaFile)); meta3.Tables["gemm_perf"].CollectorHash != entry2.CollectorHash {
		t.Error("the collector hash depends on the host's name")
	}
}

// Complete means that every case that can run has a row.
func TestStatusOfTheSidecar(t *testing.T) {
	for class, want := range map[string]string{"unsupported_config": tree.Complete, "framework_bug": tree.Partial,
		"tripped": tree.Partial} {
		ds := gemm(order(2))
		ds.Ledger = table.NewRecord([]string{"case_id", "class"},
			[]arrow.Array{table.Constant("c9", 1), table.Constant(class, 1)})
		dir := t.TempDir()
		mustRun(t, config(func(c *Config) { c.Layout = tree.Families }), dir, ds)

		meta, err := tree.ReadMeta(filepath.Join(dir, "data", "h200_sxm", "gemm", "trtllm", "1.3.0", tree.MetaFile))
		if err != nil {
			t.Fatal(err)
		}

		if got := meta.Tables["gemm_perf"].Status; got != want {
			t.Errorf("%s: status %s, want %s", class, got, want)
		}
	}
}

// The sidecar does not pass off rows of a published table as measured ones.
func TestProvenanceOfTheSidecar(t *testing.T) {
	perm := []int{0, 1, 2, 3}
	seeded := func(rows ...int) *stage.Dataset { // rows are those that were imported
		ds := gemm(perm)
		from, valid := make([]string, len(perm)), make([]bool, len(perm))
		for _, i := range rows {
			from[i], valid[i] = "gemm_perf.txt sha256:1", true
		}
		ds.Table = table.WithColumn(ds.Table, "imported_from", table.Texts(from, valid))
		return ds
	}

	read := func(perm ...int) *stage.Dataset {
		ds := gemm(perm)
		ds.Planned = nil
		return ds
	}

	type counts struct{ word, collected, imported, unknown string }

	for name, tt := range map[string]struct {
		first, then *stage.Dataset
		sidecar     bool // of the first export stays
		want        counts
		says        string
		hash        bool
	}{
		"measured":    {then: gemm(perm), want: counts{word: "collected"}, hash: true},
		"some seeded": {then: seeded(1), want: counts{"mixed", "3", "1", ""}, says: "1 of 4 imported", hash: true},
		"all seeded": {then: seeded(0, 1, 2, 3), want: counts{"imported", "", "4", ""},
			says: "all of them imported"},
		"an import": {then: read(0, 1), want: counts{"imported", "", "2", ""}, says: "all of them imported"},
		"imported and kept": {first: read(0, 1), then: gemm([]int{1, 2}), sidecar: true,
			want: counts{"mixed", "2", "1", ""}, hash: true},
		"measured and kept": {first: gemm([]int{0, 1}), then: read(1, 2), sidecar: true,
			want: counts{"mixed", "1", "2", ""}, says: "all of them imported", hash: true},
		"replaced by measured": {first: read(0, 1), then: gemm([]int{0, 1}), sidecar: true,
			want: counts{word: "collected"}, hash: true},
		"kept of a mixture": {first: seeded(1), then: gemm([]int{0}), sidecar: true,
			want: counts{"mixed", "1", "", "3"}, hash: true},
		"kept without sidecar": {first: gemm([]int{0, 1}), then: gemm([]int{2}),
			want: counts{"mixed", "1", "", "2"}, hash: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			sidecar := filepath.Join(dir, "data", "h200_sxm", "gemm", "trtllm", "1.3.0", tree.MetaFile)

			c := func() *Config { return config(func(c *Config) { c.Layout = tree.Families }) }
			if tt.first != nil {
				mustRun(t, c(), dir, tt.first)
			}

			if tt.first != nil && !tt.sidecar {
				if err := os.Remove(sidecar); err != nil {
					t.Fatal(err)
				}
			}

			out := mustRun(t, c(), dir, tt.then)
			meta, err := tree.ReadMeta(sidecar)
			if err != nil {
				t.Fatal(err)
			}

			e := meta.Tables["gemm_perf"]
			text := func(n int64) string {
				if n == 0 {
					return ""
				}
				return fmt.Sprint(n)
			}
			if got := (counts{meta.Provenance, text(e.CollectedRows), text(e.ImportedRows),
				text(e.UnknownRows)}); got != tt.want {
				t.Errorf("sidecar says %+v, want %+v", got, tt.want)
			}

			if tt.says != "" && !strings.HasSuffix(out.Message, tt.says) || tt.says == "" &&
				strings.Contains(out.Message, "imported") {
				t.Errorf("message %q, want %q at its end", out.Message, tt.says)
			}

			if (e.CollectorHash != "") != (tt.hash && tt.then.Planned != nil) {
				t.Errorf("collector hash %q", e.CollectorHash)
			}
		})
	}
}

// TestFilesOfToday: events in the sidecar, the version that can be asked for, and
// the framework's own attention kernels. Partial data is never current.
func TestFilesOfToday(t *testing.T) {
	dir := t.TempDir()
	change := func(c *Config) {
		c.Layout, c.Sidecar, c.CollectorRef, c.Current = tree.Families, 2, "0123abc", true
		c.AttentionLanes = map[string]string{"90": "fa3"}
	}

	mustRun(t, config(change), dir, gemm(order(4)))
	folder := filepath.Join(dir, "data", "h200_sxm", "gemm", "trtllm", "1.3.0")
	meta, err := tree.ReadMeta(filepath.Join(folder, tree.MetaFile))
	if err != nil {
		t.Fatal(err)
	}

	events := meta.Tables["gemm_perf"].Collections
	if meta.SchemaVersion != 2 || len(events) != 1 || events[0].CollectorRef != "0123abc" ||
		*events[0].Rows != 4 || events[0].CasePlanHash == "" || events[0].CollectorHash == "" {
		t.Errorf("%+v", meta)
	}

	if got := read(t, dir, tree.SlotsFile); !strings.Contains(got, "trtllm: {current: 1.3.0, previous: null}") {
		t.Errorf("slots:\n%s", got)
	}

	if got := read(t, dir, tree.LanesFile); got != "trtllm:\n  1.3.0:\n    90: fa3\n" {
		t.Errorf("lanes:\n%s", got)
	}

	partial := gemm(order(4))
	partial.Info.Partial = "limit"
	if _, err := run(t, config(func(c *Config) { change(c); c.AllowPartial = true }), t.TempDir(),
		partial); err == nil || !strings.Contains(err.Error(), "newest complete version") {
		t.Errorf("partial data became current: %v", err)
	}
}
