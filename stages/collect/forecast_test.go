package collect

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"aicplan/stages/collect/rows"
)

// TestMeasuredColumnsAreDocumented checks that forecasts and docs/reference/measuring.md have the same columns.
func TestMeasuredColumnsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/measuring.md")
	if err != nil {
		t.Fatal(err)
	}
	known := append(slices.Clone(measuredColumns), rows.Stages...)
	for _, m := range rows.SchemaOf(nil, "", true) {
		known = append(known, m.Name)
	}
	told := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`[a-z0-9_`, ]+`"+`) \|.*\|$`).FindAllStringSubmatch(string(page),
		-1) {
		for _, word := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(row[1], -1) {
			told[word[1]] = true
		}
	}
	for _, name := range measuredColumns {
		if !told[name] && name != "gflop_per_s" && name != "imported_from" {
			t.Errorf("docs/reference/measuring.md has no row about the column %s", name)
		}
	}
	for _, name := range []string{"pass_spread", "sol_ms", "busbw_gb_s", "power_method", "rank_spread",
		"ready_clock_mhz"} {
		if !told[name] || !slices.Contains(known, name) {
			t.Errorf("the column %s is not told or not known", name)
		}
	}
	section := regexp.MustCompile(`(?s)## Columns\n(.*)`).FindSubmatch(page)[1]
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`[a-z0-9_`, ]+`"+
		`) \|.*\|$`).FindAllStringSubmatch(string(section), -1) {
		for _, word := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(row[1], -1) {
			if !slices.Contains(known, word[1]) {
				t.Errorf("docs/reference/measuring.md has the column %s, and no forecast knows it", word[1])
			}
		}
	}
}
