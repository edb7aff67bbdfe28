package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/sink/catalog"
)

// TestLanguagePageHasMetrics checks that the table of serving metrics equals the catalog's.
func TestLanguagePageHasMetrics(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(repoRoot(t), "docs", "reference", "collect.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := "| metric of `serving_perf` | unit | direction | required |\n|---|---|---|---|\n"
	for _, c := range catalog.SchemaOf("serving_perf").Metrics {
		required := map[bool]string{true: "no", false: "yes"}[c.Lacking]
		want += fmt.Sprintf("| `%s` | %s | %s | %s |\n", c.Name, c.Unit, c.Better, required)
	}
	if !strings.Contains(string(page), want+"\n") {
		t.Errorf("docs/reference/collect.md does not have the metrics of serving_perf as the catalog has them:\n%s", want)
	}
}
