package collect

import (
	"testing"

	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
	"aicplan/stages/grids"
)

// TestFreshCountsAsJobsDo compares the quick count of a plan without history with the count of a full
// job.
func TestFreshCountsAsJobsDo(t *testing.T) {
	for name, grid := range map[string]string{
		"cases": plain,
		"sweep": "op = \"synthetic\"\naxis \"m\" { values = [1, 2, 3, 4, 5, 6] }\nsweep \"s\" { values = [16, 32, 64] }\n",
		// The sweep's filter excludes all points of the last cases.
		"thin sweep": "op = \"synthetic\"\naxis \"m\" { values = [1, 2, 3, 4, 5, 6] }\nsweep \"s\" {\n  axis \"p\" { values = [1, 2, 3] }\n  filter \"few\" {\n    keep   = p * m <= 4\n    reason = \"large\"\n  }\n}\n",
	} {
		b := newBench(t, grid)
		for _, o := range []stage.Options{{}, {Limit: 2}, {Limit: 100}, {Smoke: true, Seed: 7}} {
			b.opts = o
			pc := b.planContext()
			cases := grids.CasesOf(pc.Upstream(&stage.Ref{Address: "grid.g", Kind: "grid"}))
			if cases == nil {
				t.Fatal("no cases")
			}
			j, err := newJob(cases, rows.SchemaOf(nil, "", true), nil, o)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fresh(cases, o), j.counts(); got != want {
				t.Errorf("%s with %+v: %+v, the job has %+v", name, o, got, want)
			}
		}
	}
}
