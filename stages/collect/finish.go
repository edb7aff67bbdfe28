package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sync/errgroup"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/collect/policy"
	"aicplan/stages/collect/rows"
)

// giveUp marks open cases as interrupted if the run stops before a worker is up.
func (r *running) giveUp() error {
	if r.env == nil {
		return context.Canceled
	}
	r.interrupt()
	return nil
}

// interrupt skips the open cases after a stop.
func (r *running) interrupt() {
	r.job.close("interrupted", "the run was interrupted before it was tried", allUnits)
}

// results are the results of units as the journal has them.
type results struct {
	rows     []arrow.Record
	first, n []int32 // rows of each unit
	failures map[int]*rows.Entry
	classes  map[string]int // number of units without a measurement
}

// partSize is the least number of entries that a processor decodes.
const partSize = 1_000

// load reads the journal entries of all units that have ended.
func (r *running) load() (*results, error) {
	j := r.job
	s := &results{first: make([]int32, len(j.units)), n: make([]int32, len(j.units)),
		failures: map[int]*rows.Entry{}, classes: map[string]int{}}
	var want []int
	for i, u := range j.all() {
		if u.state == measured || u.state == failed {
			want = append(want, i)
		}
	}
	parts := slices.Collect(slices.Chunk(want, max(partSize, 1+len(want)/runtime.GOMAXPROCS(0))))
	s.rows = make([]arrow.Record, len(parts))
	var mu sync.Mutex // of failures
	var work errgroup.Group
	for p, units := range parts {
		work.Go(func() error {
			var ids []string
			for _, i := range units {
				ids = append(ids, j.id(i))
			}

			b, next := rows.NewBuilder(j.schema), int32(0)
			err := r.journal.Read(ids, func(at int, e checkpoint.Entry) (err error) {
				i := units[at]
				if j.units[i].state == failed {
					mu.Lock()
					defer mu.Unlock()
					s.failures[i], err = rows.Decode(e)
					return err
				}

				n, err := b.Add(e)
				s.first[i], s.n[i] = next, int32(n)
				next += int32(n)
				return err
			})
			if err == nil {
				s.rows[p] = b.Record()
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}

	before := int32(0)
	for p, rec := range s.rows {
		for _, i := range parts[p] {
			s.first[i] += before
		}
		before += int32(rec.NumRows())
	}

	for i, u := range j.all() {
		switch {
		case u.state == skipped:
			s.classes[u.why.class]++
		case u.state == failed && s.failures[i] != nil:
			class, _ := policy.Classify(r.rules, s.failures[i].Failure)
			s.classes[class]++
		case u.state != open && s.n[i] == 0:
			return nil, fmt.Errorf(
				"the result of case %s was withdrawn meanwhile, by a run with --replace or --retry: run the same command again",
				j.id(i),
			)
		case u.state == open:
			return nil, fmt.Errorf("internal error: case %s ended neither as a measurement nor with a reason", j.id(i))
		}
	}
	return s, nil
}

// finish loads the stored results and returns the stage's outcome with its tables.
func (r *running) finish() (*stage.Outcome, error) {
	if r.part == nil && r.reusesOtherCode() {
		r.remember() // a plan that is made without the op's files assumes the code of these rows
	}
	s, err := r.load()
	if err != nil {
		return nil, err
	}

	plannedRec := r.job.cases.PointRecord()
	rec, mixed := r.measurements(s, plannedRec)
	for _, name := range mixed {
		r.message("warn", "the column %s has values of several types, such as numbers and text, or integers beyond 2^53 and "+
			"fractions, and is kept as text", name)
	}
	ledger, err := r.ledger(s)
	if err != nil {
		return nil, err
	}

	n := r.job.tally()
	out := &stage.Outcome{
		Data: &stage.Dataset{Table: rec, Ledger: ledger, Planned: plannedRec, Info: r.info(s.classes)},
		Values: map[string]cty.Value{
			"measured": cty.NumberIntVal(int64(n.Measured)), "reused": cty.NumberIntVal(int64(r.reused)),
			"failed": cty.NumberIntVal(int64(n.Failed)), "skipped": cty.NumberIntVal(int64(n.Skipped)),
		},
		Journal: r.journal.Digest,
		Counts: stage.Counts{Cases: r.job.asked(), Planned: n.Planned, Measured: r.now,
			Reused: n.Measured - r.now, Failed: n.Failed, Skipped: n.Skipped, Rows: table.Len(rec)},
	}
	out.Status, out.Message = r.verdict(n, s.classes)
	return out, nil
}

// measurements returns the table of measured rows in plan order: the columns of the case, the environment, the metrics,
// and further columns from the workers. It returns nil if no unit was measured. mixed are columns that became text,
// because they have values of several types.
func (r *running) measurements(s *results, planned arrow.Record) (rec arrow.Record, mixed []string) {
	var order, cases []int
	whole := true // each planned row has exactly one measured row
	for i, n := range s.n {
		whole = whole && n == 1
		for k := range n {
			order, cases = append(order, int(s.first[i]+k)), append(cases, i)
		}
	}
	if len(order) == 0 {
		return nil, nil
	}

	rec = table.Drop(planned, "status")
	if !whole {
		rec = table.Take(rec, cases)
	}
	all, err := table.Concat(s.rows...)
	if err != nil {
		panic("collect: " + err.Error()) // cannot happen: builders of a schema agree on the types
	}
	s.rows = nil
	rec, mixed = rows.Table(rec, r.job.schema, all, order,
		rows.Label{Framework: r.env.Framework, Version: r.env.Version, Device: r.env.Device})
	return rec, mixed
}

// ledger returns the units without a measurement in plan order. It has the attachments column only if one of them has
// attachments.
func (r *running) ledger(s *results) (arrow.Record, error) {
	b := table.NewBuilder(stage.LedgerSchema.Fields()...)
	for i, u := range r.job.all() {
		if u.state != failed && u.state != skipped {
			continue
		}

		row := map[string]any{
			"case_id": r.job.id(i), "params": string(r.job.params(u)), "group": r.job.groups[r.job.groupOf(int(u.task))],
			"type": "", "traceback": "", "attempts": 0, "worker": "", "device_uuid": "", "at": "",
		}
		if u.state == skipped {
			row["status"], row["class"], row["message"] = "skipped", u.why.class, u.why.reason
		} else {
			e := s.failures[i]
			f := e.Failure
			row["status"] = "failed"
			row["class"], _ = policy.Classify(r.rules, f)
			row["type"], row["message"], row["traceback"] = f.Exception, firstLine(f.Message), fullText(f)
			row["attempts"], row["worker"], row["device_uuid"], row["at"] = e.Attempts, e.Worker, e.DeviceUUID, e.At
			if len(e.Attachments) > 0 {
				raw, err := json.Marshal(e.Attachments)
				if err != nil {
					return nil, fmt.Errorf("ledger: %w", err)
				}
				row[stage.AttachmentsColumn] = string(raw)
			}
		}

		if err := b.Append(row); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
	}

	return b.Record(), nil
}

// fullText returns the traceback of a failure, or the message if there is no traceback and the message has several
// lines.
func fullText(f *worker.Failure) string {
	if f.Traceback != "" || firstLine(f.Message) == f.Message {
		return f.Traceback
	}
	return f.Message
}

// info returns the description of the rows as a whole. classes counts the units without a measurement.
func (r *running) info(classes map[string]int) stage.Info {
	cases := r.planned.Cases
	info := stage.Info{
		Op: r.planned.info.Op, Perf: r.perfTable(r.planned.info.Perf), Declared: r.planned.info.Declared,
		Params:    slices.Concat(cases.Columns(), cases.SweepColumns()),
		Framework: r.env.Framework, Version: r.env.Version, Device: r.env.Device, System: r.system,
		Runtime: r.runtime.Address, Image: r.runtime.Image, ImageDigest: r.runtime.ImageDigest, Env: maps.Clone(r.env.Env),
	}

	switch {
	case truncated(cases.Len(), r.rc.Options):
		info.Partial = r.rc.Options.Partial()
	case classes["interrupted"] > 0:
		info.Partial = "interrupted"
	case classes["ramp"] > 0:
		info.Partial = "ramp"
	case classes[lostClass] > 0:
		info.Partial = "tasks lost"
	}
	return info
}

// verdict returns the status of the stage and the reason in one line.
func (r *running) verdict(n tally, classes map[string]int) (stage.Status, string) {
	text := fmt.Sprintf("%d of %d cases measured", n.Measured, n.Planned)
	if n.Measured-r.now > 0 && r.now > 0 {
		text += fmt.Sprintf(" (%d now, %d before)", r.now, n.Measured-r.now)
	}

	sep := "; "
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		text += fmt.Sprintf("%s%d %s", sep, classes[class], class)
		sep = ", "
	}

	switch {
	case r.ran || n.Failed == 0:
	case classes["tripped"] > 0:
		text += "; failed before and not tried again (--retry failed or tripped does)"
	default:
		text += "; failed before and not tried again (--retry failed does)"
	}

	stopText := ""
	if r.stopText != "" {
		stopText = "; " + r.stopText
	}
	switch {
	case classes["interrupted"] > 0:
		return stage.StatusInterrupted, text
	case n.Failed > 0 && n.Measured == 0:
		return stage.StatusFailed, text + stopText
	case n.Failed > 0 || n.Skipped > n.excluded+n.barred: // the others are not missing
		return stage.StatusPartial, text + stopText
	}
	return stage.StatusOK, text
}
