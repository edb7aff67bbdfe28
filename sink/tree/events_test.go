package tree

import (
	"strings"
	"testing"
)

// TestParseMetaNeedsEvidenceInSchema2 checks that sidecars with missing fields are rejected.
func TestParseMetaNeedsEvidenceInSchema2(t *testing.T) {
	t.Parallel()
	head := "schema_version: 2\nruntime: {framework: vllm, version: 0.24.0}\ntables:\n  gemm_perf:\n"
	event := "{collector_ref: a, collector_hash: b, case_plan_hash: c, collected_at: d, rows: 5, status: complete"
	for text, want := range map[string]string{
		"    {rows: 5, status: complete}":                                                           "collections must list",
		"    {status: complete, collections: [" + event + "}]}":                                     "rows must be there",
		"    {rows: 5, status: complete, collections: [{rows: 5, status: complete}]}":               "collections[0]: collector_ref must be there",
		"    {rows: 5, status: complete, collections: [" + event + ", source_campaign_rows: 4}]}":   "source_campaign_rows must be at least rows",
		"    {rows: 5, status: complete, collections: [" + event + ", source_campaign_status: x}]}": "source_campaign_status is",
	} {
		if _, err := ParseMeta([]byte(head + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := ParseMeta([]byte(head + "    {rows: 5, status: complete, collections: [" + event + ", source_campaign_rows: 9, runtime: {framework: vllm, version: 0.25.0}}]}")); err != nil {
		t.Error(err)
	}
	if _, err := ParseMeta([]byte(strings.Replace(head, "schema_version: 2", "schema_version: 1", 1) + "    {rows: 5, status: complete, collections: [" + event + "}]}")); err == nil {
		t.Error("events in schema 1")
	}
}
