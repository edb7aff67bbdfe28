package tree

import (
	"strings"
	"testing"
)

var vllm = Runtime{Framework: "vllm", Version: "0.24.0"}

func collected(rows int64, hash string) TableMeta {
	return TableMeta{CollectorRef: "abc", CollectorHash: "sha256:" + hash, CasePlanHash: "sha256:1",
		CollectedAt: "2026-11-01", Rows: &rows, Status: Complete, DataHash: "sha256:9"}
}

func next(t *testing.T, data []byte, u Update) ([]byte, *Meta) {
	t.Helper()
	out, err := NextMeta(data, "collection_meta.yaml", vllm, u)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseMeta(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out, m
}

// TestEvents: a table is collected, a part of it again by another collector, then
// that part once more, and at last all of it.
func TestEvents(t *testing.T) {
	t.Parallel()
	data, m := next(t, nil, Update{Table: "gemm_perf", Entry: collected(100, "a"), Schema: 2})
	if e := m.Tables["gemm_perf"]; m.SchemaVersion != 2 || len(e.Collections) != 1 || *e.Collections[0].Rows != 100 ||
		e.DataHash != "" {
		t.Fatalf("%s", data)
	}
	data, m = next(t, data, Update{Table: "gemm_perf", Entry: collected(110, "b"), Kept: 80})
	if e := m.Tables["gemm_perf"]; len(e.Collections) != 2 || *e.Rows != 110 || *e.Collections[1].Rows != 30 {
		t.Fatalf("%s", data)
	}
	data, m = next(t, data, Update{Table: "gemm_perf", Entry: collected(110, "b"), Kept: 80})
	if e := m.Tables["gemm_perf"]; len(e.Collections) != 2 {
		t.Fatalf("the same collection twice:\n%s", data)
	}
	data, _ = next(t, data, Update{Table: "moe_perf", Entry: collected(5, "c")})
	if data, m = next(t, data, Update{Table: "gemm_perf",
		Entry: collected(120, "d")}); len(m.Tables["gemm_perf"].Collections) != 1 ||
		len(m.Tables["moe_perf"].Collections) != 1 {
		t.Fatalf("all rows are new:\n%s", data)
	}
}

// TestUpgrade: a sidecar of schema 1 becomes one of schema 2 where every table has
// evidence; comments stay.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	data, _ := next(t, nil, Update{Table: "gemm_perf", Entry: collected(100, "a")})
	data = append([]byte("# by hand\n"), data...)
	out, m := next(t, data, Update{Table: "moe_perf", Entry: collected(5, "c"), Schema: 2})
	if m.SchemaVersion != 2 || len(m.Tables["gemm_perf"].Collections) != 1 ||
		!strings.HasPrefix(string(out), "# by hand\n") || strings.Contains(string(out), "data_hash") {
		t.Errorf("%s", out)
	}
	imported := collected(7, "x")
	imported.ImportedRows = *imported.Rows
	data, _ = next(t, nil, Update{Table: "gemm_perf", Entry: imported})
	if _, err := NextMeta(data, "f", vllm, Update{Table: "moe_perf", Entry: collected(5, "c"), Schema: 2}); err == nil ||
		!strings.Contains(err.Error(), "tables.gemm_perf of schema 1 cannot become schema 2: 7 of its rows") {
		t.Errorf("%v", err)
	}
}

// TestSecondSchemaNeedsEvidence checks that rows without evidence and sidecars with missing fields are
// rejected.
func TestSecondSchemaNeedsEvidence(t *testing.T) {
	t.Parallel()
	bare := collected(5, "c")
	bare.CollectorRef = ""
	if _, err := NextMeta(nil, "f", vllm, Update{Table: "moe_perf", Entry: bare, Schema: 2}); err == nil ||
		!strings.Contains(err.Error(), "collector_ref must be there") {
		t.Errorf("%v", err)
	}
	head := "schema_version: 2\nruntime: {framework: vllm, version: 0.24.0}\ntables:\n  gemm_perf:\n"
	event := "{collector_ref: a, collector_hash: b, case_plan_hash: c, collected_at: d, rows: 5, status: complete"
	for text, want := range map[string]string{
		"    {rows: 5, status: complete}":                       "collections must list",
		"    {status: complete, collections: [" + event + "}]}": "rows must be there",
		"    {rows: 5, status: complete, collections: [{rows: 5, status: complete}]}": "collections[0]: collector_ref must " +
			"be there",
		"    {rows: 5, status: complete, collections: [" + event +
			", source_campaign_rows: 4}]}": "source_campaign_rows must be at least rows",
		"    {rows: 5, status: complete, collections: [" + event +
			", source_campaign_status: x}]}": "source_campaign_status is",
	} {
		if _, err := ParseMeta([]byte(head + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := ParseMeta([]byte(head + "    {rows: 5, status: complete, collections: [" + event +
		", source_campaign_rows: 9, runtime: {framework: vllm, version: 0.25.0}}]}")); err != nil {
		t.Error(err)
	}
	if _, err := ParseMeta([]byte(strings.Replace(head, "schema_version: 2", "schema_version: 1",
		1) + "    {rows: 5, status: complete, collections: [" + event + "}]}")); err == nil {
		t.Error("events in schema 1")
	}
}
