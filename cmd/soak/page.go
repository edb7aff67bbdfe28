package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// render writes what came of the faults as a Markdown table.
func render(faults []*fault, o options, took time.Duration) string {
	var b strings.Builder
	tried, survived, lost := 0, 0, 0
	for _, f := range faults {
		tried, survived, lost = tried+f.tried, survived+f.survived, lost+f.lost
	}
	fmt.Fprintf(&b, "%d trials of %d faults in %s with seed %d, %d at a time, on %s/%s with %d CPUs: %d survived; rows that were acknowledged and measured again, without damage to the journal: see the column.\n\n",
		tried, len(faults), took.Round(time.Second), o.seed, o.jobs, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), survived)
	b.WriteString("| fault | tried | survived | acknowledged at the fault | lost or measured again | same bytes | recovery s (median, max) | note |\n|---|---|---|---|---|---|---|---|\n")
	for _, f := range faults {
		if f.skipped != "" {
			fmt.Fprintf(&b, "| %s | 0 | | | | | | not tried: %s |\n", f.name, strings.ReplaceAll(f.skipped, "|", "\\|"))
			continue
		}
		acked, rows, same := fmt.Sprintf("%d to %d", f.ackedLow, f.ackedHigh), fmt.Sprint(f.lost), fmt.Sprint(f.same)
		if f.none {
			acked, rows, same = "", "", ""
		}
		slices.Sort(f.recoveries)
		median, most := 0.0, 0.0
		if n := len(f.recoveries); n > 0 {
			median, most = f.recoveries[(n-1)/2].Seconds(), f.recoveries[n-1].Seconds()
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %.1f, %.1f | %s |\n", f.name, f.tried, f.survived, acked, rows, same, median, most, notes(f.notes))
	}
	return b.String()
}

// notes are the most frequent remarks.
func notes(all map[string]int) string {
	list := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), strings.Compare(a, b)) })
	var out []string
	for _, n := range list[:min(4, len(list))] {
		out = append(out, fmt.Sprintf("%s (%dx)", n, all[n]))
	}
	return strings.ReplaceAll(strings.Join(out, "; "), "|", "\\|")
}

// The table stands between these lines of the page.
const (
	beginMark = "<!-- written by make soak: begin -->"
	endMark   = "<!-- written by make soak: end -->"
)

func writePage(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), beginMark)
	_, after, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return fmt.Errorf("%s lacks the lines %q and %q", path, beginMark, endMark)
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n\n"+table+"\n"+endMark+after), 0o644)
}
