package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

// entriesOf makes an entry for every case, always the same for a case.
func entriesOf(cases *grid.Cases, of func(r *rand.Rand, e *entry)) map[string]*entry {
	out := map[string]*entry{}
	for i := range cases.Len() {
		id := cases.ID(i)
		r := rand.New(rand.NewPCG(1, uint64(len(id))<<32|uint64(id[0])<<16|uint64(id[1])<<8|uint64(id[2])))
		e := &entry{Attempts: 1 + r.IntN(3), Worker: fmt.Sprint("w", r.IntN(2)), DeviceUUID: "GPU-1", At: fmt.Sprintf("2026-11-22T04:30:%02d.%dZ", r.IntN(60), r.IntN(9)+1)}
		for range 1 + r.IntN(8)/7 {
			row := worker.Row{"latency": json.Number(fmt.Sprint(r.Float64()))}
			if r.IntN(3) > 0 {
				row["samples"], row["throttled"], row["kernel_source"] = json.Number(fmt.Sprint(r.IntN(9))), r.IntN(2) == 0, "k"
			}
			if r.IntN(5) == 0 {
				row["power"] = json.Number("1.5")
			}
			e.Rows = append(e.Rows, row)
		}
		of(r, e)
		out[id] = e
	}
	return out
}

// TestStoredRowsAreTheRows: a table is the same, byte for byte, whether the rows of
// cases that were there before come from their entries or from the table that was
// made of them; or the stored table says that it cannot tell.
func TestStoredRowsAreTheRows(t *testing.T) {
	t.Parallel()
	env := &runtimes.Environment{Framework: "F", Version: "1", Device: "D"}
	more := func(name string, of func(r *rand.Rand) any) func(*rand.Rand, *entry) {
		return func(r *rand.Rand, e *entry) {
			for _, row := range e.Rows {
				if v := of(r); v != nil {
					row[name] = v
				}
			}
		}
	}
	number := func(of ...string) func(r *rand.Rand) any {
		return func(r *rand.Rand) any { return json.Number(of[r.IntN(len(of))]) }
	}
	for name, c := range map[string]struct {
		entries func(r *rand.Rand, e *entry)
		exact   bool // the table tells all
	}{
		"metrics": {func(*rand.Rand, *entry) {}, true},
		"labels":  {func(r *rand.Rand, e *entry) { e.Label = &label{"F", fmt.Sprint(r.IntN(2)), "D"} }, true},
		"attachments": {func(r *rand.Rand, e *entry) {
			e.Attachments = []stage.Attachment{{Name: "a<b>", Digest: "sha256:1", Bytes: 3}}
		}, true},
		"odd times": {func(r *rand.Rand, e *entry) { e.At = "noon" }, true},
		"words":     {more("extra", func(r *rand.Rand) any { return []any{"a", "", nil}[r.IntN(3)] }), true},
		"flags":     {more("extra", func(r *rand.Rand) any { return r.IntN(2) == 0 }), true},
		"integers":  {more("extra", number("1", "-7", "9007199254740993")), true},
		"floats":    {more("extra", number("1.50", "2", "1e3")), false},
		"a mix":     {more("extra", func(r *rand.Rand) any { return []any{"a", json.Number("1.0"), true}[r.IntN(3)] }), true},
	} {
		t.Run(name, func(t *testing.T) {
			first := "op = \"synthetic\"\naxis \"m\" { values = [%s] }\naxis \"n\" { values = [%s] }\n"
			for _, g := range [][2]string{
				{fmt.Sprintf(first, "1, 2, 3", "1, 2, 3, 4, 5"), fmt.Sprintf(first, "1, 2, 3, 4", "1, 2, 3, 4, 5")},
				{fmt.Sprintf(first, "1, 2, 3", "1, 2, 3, 4, 5"), fmt.Sprintf(first, "0, 1, 2, 3", "1, 2, 2.5, 3, 4, 5")},
				{fmt.Sprintf(first, "3, 1, 2", "5, 1, 2, 3, 4"), fmt.Sprintf(first, "1, 2, 3", "1, 2, 3, 4, 5")},
				{fmt.Sprintf(first, "1, 2, 3", "1, 2, 3, 4, 5"), fmt.Sprintf(first, "2, 3", "4, 5, 6")}, // rows are left over
			} {
				old, now := casesOf(t, g[0]), casesOf(t, g[1])
				stored := tableOf(t, held(t, old, entriesOf(old, c.entries)), env)
				entries := entriesOf(now, c.entries)
				want := tableOf(t, held(t, now, entries), env)

				j := newTestJob(t, now)
				var kept []int32
				was := map[string]bool{}
				for i := range old.Len() {
					was[old.ID(i)] = true
				}
				for i := range j.units {
					j.units[i].state = measured
					if was[j.id(i)] {
						kept = append(kept, int32(i))
					}
				}
				take := &taker{job: j, env: env, want: kept, before: table.Names(table.Drop(now.Record(), "status"))}
				err := take.take(stored)
				if err == nil && take.inexact() {
					err = errInexact
				}
				if exact := c.exact && !(take.extras && take.left); exact != (err == nil) || err != nil && !errors.Is(err, errInexact) {
					t.Fatalf("exact %v: %v", exact, err)
				}
				if err != nil {
					continue
				}
				for _, i := range kept {
					if j.units[i].rows == 0 {
						t.Errorf("case %s was not taken", j.id(int(i)))
					}
				}
				for i := range j.units {
					if j.units[i].rows == 0 {
						j.hold(i, entries[j.id(i)])
					}
				}
				if got := tableOf(t, j, env); digestOf(t, got) != digestOf(t, want) {
					t.Errorf("%s\nthen %s\n%s", g[0], g[1], table.Diff(want, got))
				}
			}
		})
	}
}

func casesOf(t *testing.T, src string) *grid.Cases {
	t.Helper()
	b := &bench{t: t, grid: src}
	cases := grids.CasesOf(b.planContext().Upstream(&stage.Ref{Address: "grid.g", Kind: "grid"}))
	if cases == nil {
		t.Fatal("no cases")
	}
	return cases
}

func newTestJob(t *testing.T, cases *grid.Cases) *job {
	t.Helper()
	j, err := newJob(cases, schemaOf("", true), nil, stage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// held is a job whose units all have the rows of their entries.
func held(t *testing.T, cases *grid.Cases, entries map[string]*entry) *job {
	t.Helper()
	j := newTestJob(t, cases)
	for i := range j.units {
		j.units[i].state = measured
		j.hold(i, entries[j.id(i)])
	}
	return j
}

func tableOf(t *testing.T, j *job, env *runtimes.Environment) arrow.Record {
	t.Helper()
	planned, err := j.planned()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := j.measurements(planned, env)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func digestOf(t *testing.T, rec arrow.Record) string {
	t.Helper()
	digest, err := checkpoint.RecordDigest(rec)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestStoredRowsGiveWay: rows are taken from the stage's stored table, and not
// where the journal has something newer of their case.
func TestStoredRowsGiveWay(t *testing.T) {
	t.Parallel()
	b := newBench(t, "op = \"synthetic\"\naxis \"m\" { values = [1, 2, 3, 4] }\n")
	first := b.must("", stage.StatusOK)
	// A table with other latencies shows which rows came from it.
	marked := table.WithColumn(first.Data.Table, "latency", table.Floats([]float64{1e6, 1e6, 1e6, 1e6}, nil))
	keep := func(rec arrow.Record, out *stage.Outcome) {
		t.Helper()
		digest, err := b.store.PutRecord(rec)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.store.WriteStage(&checkpoint.StageRecord{
			Address: "collect.c", Kind: "collect", Status: "ok", Outputs: checkpoint.Outputs{Table: digest},
			Journal: out.Journal, JournalCases: out.JournalCases, JournalRead: out.JournalRead,
		}); err != nil {
			t.Fatal(err)
		}
	}
	keep(marked, first)
	fromTable := func() int {
		t.Helper()
		b.reopen()
		out := b.must("", stage.StatusOK)
		col, err := table.Float64s(out.Data.Table, "latency")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, v := range col.Values {
			if v == 1e6 {
				n++
			}
		}
		return n
	}
	if n := fromTable(); n != 4 {
		t.Errorf("%d rows of 4 come from the stored table", n)
	}
	// More cases: the new ones are measured, the others taken.
	b.grid = "op = \"synthetic\"\naxis \"m\" { values = [1, 2, 3, 4, 5] }\n"
	if n := fromTable(); n != 4 {
		t.Errorf("%d rows come from the stored table after one case more", n)
	}
	// Two cases measured anew: theirs are those of the journal.
	c, p := b.prepare("")
	env, _ := c.pools.Expect(t.Context(), b.store, c.runtime)
	cases := p.Private.(*planned).cases
	journal, _, err := c.journal(b.store, cases.Spec(), env)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		payload, err := (&entry{Rows: []worker.Row{{"latency": json.Number("0.5")}}, Attempts: 1, At: "x"}).encode()
		if err == nil {
			err = journal.Append(checkpoint.Entry{ID: cases.ID(i), Kind: checkpoint.Measured, Payload: payload})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := fromTable(); n != 2 {
		t.Errorf("%d rows come from the stored table after two cases were measured anew", n)
	}
	// A damaged table is put aside, and the journal has the rows.
	rec, err := b.store.ReadStage("collect.c")
	if err != nil {
		t.Fatal(err)
	}
	path, err := b.store.ObjectPath(rec.Outputs.Table)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if n := fromTable(); n != 0 {
		t.Errorf("%d rows come from a damaged table", n)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the damaged table is still in its place")
	}
	// Segments that were merged are other files, and are read in full.
	first.JournalRead = map[string]int64{"00000009-merged.seg": 1 << 30}
	keep(marked, first)
	if n := fromTable(); n != 0 {
		t.Errorf("%d rows come from the stored table after the journal was merged", n)
	}
}
