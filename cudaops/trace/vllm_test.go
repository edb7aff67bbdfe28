package trace

import (
	"fmt"
	"testing"
)

// Both ranks of a vLLM server with 32 layers. The values in addition to golden.json were computed by the
// same independent program.
func TestRanksOfVLLM(t *testing.T) {
	t.Parallel()
	var ranks []*Analysis
	for r := range 2 {
		res, err := Read(fmt.Sprintf("testdata/vllm_tp2__rank%d.json.gz", r), Options{})
		if err != nil || len(res) != 1 {
			t.Fatalf("%d results, %v", len(res), err)
		}
		ranks = append(ranks, res[0])
	}
	if note := Align(ranks); note != "" {
		t.Fatal(note)
	}
	for r, want := range []struct{ wall, busy, comm, wait int64 }{
		{215465571, 165443690, 77144955, 62062126},
		{210585960, 120240908, 32254512, 16168035},
	} {
		a := ranks[r]
		if a.Rank == nil || *a.Rank != r || a.WorldSize == nil || *a.WorldSize != 2 || a.NCCL != "2.28.9" {
			t.Errorf("rank %v of %v, NCCL %q", a.Rank, a.WorldSize, a.NCCL)
		}
		var wall, busy, comm int64
		for _, s := range a.PerStep {
			wall, busy, comm = wall+s.WallNs, busy+s.BusyNs, comm+*s.CommUnionNs
			// Two all-reduces per layer and one for the embedding. The logits are gathered between the
			// steps.
			if s.Collectives != 65 || s.WallNs != s.BusyNs+s.BubbleNs {
				t.Errorf("rank %d, %s: %d collectives, %d = %d + %d", r, s.Name, s.Collectives, s.WallNs, s.BusyNs, s.BubbleNs)
			}
		}
		if wall != want.wall || busy != want.busy || comm != want.comm || a.WaitNs == nil || *a.WaitNs != want.wait {
			t.Errorf("rank %d: wall %d, busy %d, comm %d, wait %v; want %+v", r, wall, busy, comm, a.WaitNs, want)
		}
		// NCCL reduces prefills, and vLLM's kernel reduces messages that fit into its buffer.
		byRule := map[string]int64{}
		for _, rule := range a.Rules {
			byRule[rule.Origin] += rule.Count
		}
		if byRule["NCCL"] != 140 || byRule["vLLM and SGLang custom all-reduce"] != 520 {
			t.Errorf("rank %d: %v", r, byRule)
		}
		for _, c := range a.Collectives {
			// 32 rows of 128,256 logits of two bytes; all-reduces have no sizes.
			if c.Kind == "all_gather" && (c.Bytes == nil || *c.Bytes != 32*128256*2) || c.Kind == "all_reduce" &&
				c.Bytes != nil {
				t.Errorf("rank %d: %s has %v bytes", r, c.Kind, c.Bytes)
			}
		}
	}
}
