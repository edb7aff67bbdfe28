package comm

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"aicplan/cudaops/worker"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMarkdown(t *testing.T) {
	var rows []worker.Row
	for src := range 3 {
		for dst := range 3 {
			if src == dst || src == 2 && dst == 0 {
				continue // one pair was not measured
			}
			base := worker.Row{"src": src, "dst": dst, "access": dst != 1, "native_atomics": dst != 1, "performance_rank": 0}
			if dst != 1 {
				base["nvlinks"] = 18
			}
			for _, direction := range []string{"one_way", "both_ways"} {
				for _, bytes := range []float64{256, 1 << 28} {
					r := worker.Row{"bytes": bytes, "direction": direction, "latency": 0.002 + float64(src)/1e4, "gb_per_s": 390.25 + float64(dst)}
					for k, v := range base {
						r[k] = v
					}
					rows = append(rows, r)
				}
			}
		}
	}
	got := Markdown(append(rows, worker.Row{"op_name": "all_reduce", "latency": 1.0}))
	golden := filepath.Join("testdata", "p2p.md")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if Markdown(nil) != "" {
		t.Error("no rows make a table")
	}
}
