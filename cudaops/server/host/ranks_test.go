package host

import (
	"slices"
	"testing"

	"aicplan/cudaops/trace"
)

// Traces of all layouts get one rank each. Two traces of the same rank keep it.
func TestRanksOfTraces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		gpus  int
		files []string
		ranks []int // as stored in the traces, -1 if missing
		want  []int
	}{
		{"ranks of the traces", 2, []string{"a.json", "b.json"}, []int{1, 0}, []int{1, 0}},
		{"some without a rank", 3, []string{"a.json", "b.json", "c.json"}, []int{-1, 0, -1}, []int{1, 0, 2}},
		{"replicas by name", 2, []string{"rank0.json", "rank1.json"}, []int{0, 0}, []int{0, 1}},
		{"replicas", 4, []string{"dp0_pp0_tp0_rank0.1.json", "dp0_pp0_tp1_rank1.1.json", "dp1_pp0_tp0_rank0.1.json",
			"dp1_pp0_tp1_rank1.1.json"}, []int{0, 1, 0, 1}, []int{0, 1, 2, 3}},
		{"replicas by time", 2, []string{"dp0_pp0_tp0_rank0.1.json", "dp0_pp0_tp0_rank0.2.json"}, []int{0, 0}, []int{0, 1}},
		{"two stages of one rank", 1, []string{"1-TP-0-DECODE.json", "1-TP-0-EXTEND.json"}, []int{0, 0}, []int{0, 0}},
	} {
		var results []*trace.Analysis
		for i, file := range c.files {
			r := &trace.Analysis{File: "/traces/" + file}
			if n := c.ranks[i]; n >= 0 {
				r.Rank = &n
			}
			results = append(results, r)
		}
		if got := numbered(results, c.gpus); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
