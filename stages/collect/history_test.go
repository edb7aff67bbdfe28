package collect

import (
	"strings"
	"testing"

	"aicplan/engine/checkpoint"
	"aicplan/stages/collect/rows"
	"aicplan/stages/grids"
)

func steps(n string) string { return "op = \"synthetic\"\naxis \"m\" { values = [" + n + "] }\n" }

// TestEstimateAddsStartOnce checks that the extra time of the first case of a process is added once and
// not for each case.
func TestEstimateAddsStartOnce(t *testing.T) {
	b := newBench(t, steps("1, 2, 3, 4, 5"))
	b.must("", "ok")
	c, _ := b.prepare("")
	env, _ := b.pools.Expect(t.Context(), b.store, b.runtime)
	journal, _, err := c.journal(b.store, grids.CasesOf(b.planContext().Upstream(nil)).Spec, env)
	if err != nil {
		t.Fatal(err)
	}
	firsts := 0
	var slow []checkpoint.Entry
	for e, err := range journal.All() {
		if err != nil {
			t.Fatal(err)
		}
		d, err := rows.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		d.Seconds = 0.5
		if d.First {
			firsts++
			d.Seconds = 10.5
		}
		if e.Payload, err = d.Encode(); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, e)
	}
	if firsts != 1 || len(slow) != 5 {
		t.Fatalf("%d of %d cases were the first of a process", firsts, len(slow))
	}
	if err := journal.AppendAll(slow); err != nil {
		t.Fatal(err)
	}
	b.grid = steps("1, 2, 3, 4, 5, 6, 7, 8, 9")
	_, p := b.prepare("")
	if p.Cases.Collect != 4 || p.Cases.Seconds != 12 ||
		!strings.HasSuffix(p.Cases.Basis, ": 0.5 s, and 10 s more for the first one of each worker") {
		t.Errorf("%+v", p.Cases)
	}
}
