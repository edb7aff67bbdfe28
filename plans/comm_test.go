package plans_test

import (
	"encoding/csv"
	"os"
	"slices"
	"strings"
	"testing"
)

// published reads the keys of a published table: all columns but the last.
func published(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open("../cudaops/comm/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows[1:] {
		out = append(out, strings.Join(r[:len(r)-1], ","))
	}
	slices.Sort(out)
	return out
}

// The grids of a node of 4 GPUs are the published cases, no more and no fewer.
func TestCommunicationCases(t *testing.T) {
	t.Parallel()
	const plan = "h200_comm.hcl"
	four := casesOf(t, plan, "gpus=[2,4]")
	got := lines(four["nccl"], []string{"op_name", "nccl_dtype", "num_gpus", "message_size"}, nil)
	for i, method := range lines(four["nccl"], []string{"method"}, nil) {
		if method != "graph" {
			t.Errorf("case %d is timed by the method %s; the table is what serving replays", i, method)
		}
	}
	slices.Sort(got)
	if want := published(t, "h200_nccl_2.29.2.csv"); !slices.Equal(got, want) {
		t.Errorf("%d cases of nccl, published are %d: %s", len(got), len(want), diffLines(got, want))
	}

	for _, c := range []struct {
		vars []string
		want map[string]int
	}{
		{nil, map[string]int{"nccl": 504, "p2p": 560}},
		{[]string{"gpus=[2,4]"}, map[string]int{"nccl": 336, "p2p": 120}},
		{[]string{"gpus=[2]", `tables=["p2p"]`}, map[string]int{"p2p": 20}},
		{[]string{"system=gb200"}, map[string]int{"nccl": 336, "p2p": 120}},
	} {
		got := casesOf(t, plan, c.vars...)
		for op, n := range c.want {
			if got[op] == nil || got[op].Len() != n {
				t.Errorf("%v: %v cases of %s, want %d", c.vars, got[op], op, n)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%v: grids of %d ops, want %d", c.vars, len(got), len(c.want))
		}
	}
}
