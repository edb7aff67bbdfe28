package collect

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/collect/rows"
	"aicplan/stages/runtimes"
)

// stored contains the results of units as the journal has them.
type stored struct {
	rows     *rows.Builder
	first    []int32 // row of each unit in rows
	n        []int32 // rows of each unit
	failures map[int]*rows.Entry
}

// load reads the journal entries of all units that are finished.
func (j *job) load(journal *checkpoint.Journal) error {
	s := &stored{rows: rows.NewBuilder(j.schema), first: make([]int32, len(j.units)), n: make([]int32, len(j.units)),
		failures: map[int]*rows.Entry{}}
	var want []int
	var ids []string
	for i := range j.units {
		if u := &j.units[i]; u.state == measured || u.state == failed {
			want, ids = append(want, i), append(ids, j.id(i))
		}
	}

	next := int32(0)
	err := journal.Read(ids, func(at int, e checkpoint.Entry) (err error) {
		i := want[at]
		if j.units[i].state == failed {
			s.failures[i], err = rows.Decode(e)
			return err
		}

		n, err := s.rows.Add(e)
		s.first[i], s.n[i] = next, int32(n)
		next += int32(n)
		return err
	})
	j.stored = s
	return err
}

// check verifies that every unit ended exactly once, as a measurement or with a reason.
func (j *job) check() error {
	ids := j.pointIDs()
	var wrong []string
	seen := map[string]bool{} // only for sweeps; a grid has each case once
	for i := range j.units {
		u := &j.units[i]
		ok := false
		switch u.state {
		case measured:
			ok = j.stored.n[i] > 0
		case failed:
			ok = j.stored.failures[i] != nil
		case skipped:
			ok = u.class() != "" && u.reason() != ""
		}

		if ids != nil {
			ok = ok && !seen[ids[i]]
			seen[ids[i]] = true
		}

		if !ok {
			wrong = append(wrong, j.id(i))
		}
	}

	if len(wrong) == 0 {
		return nil
	}

	more := ""
	if n := len(wrong) - 5; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
		wrong = wrong[:5]
	}

	return fmt.Errorf("internal error: planned = measured + failed + skipped does not hold; cases without an end: %v%s",
		wrong, more)
}

// measurements returns the table of measured rows in plan order: the columns of the case, the
// environment, the metrics, and further columns from the workers. It returns nil if no unit was
// measured. mixed are columns that became text, because they have values of several types.
func (j *job) measurements(planned arrow.Record, env *runtimes.Environment) (rec arrow.Record, mixed []string) {
	var order, cases []int
	whole := true // each planned row has exactly one measured row
	for i := range j.units {
		n := j.stored.n[i]
		whole = whole && n == 1
		for k := range n {
			order, cases = append(order, int(j.stored.first[i]+k)), append(cases, i)
		}
	}

	if len(order) == 0 {
		return nil, nil
	}

	rec = table.Drop(planned, "status")
	if !whole {
		rec = table.Take(rec, cases)
	}

	all := j.stored.rows
	j.stored.rows = nil // the table has them
	return all.Table(rec, order, rows.Label{Framework: env.Framework, Version: env.Version, Device: env.Device})
}

// ledger returns the units without a measurement in plan order. It has the attachments column only if
// one of them has attachments.
func (j *job) ledger(rules []Rule) (arrow.Record, error) {
	b := table.NewBuilder(stage.LedgerSchema.Fields()...)
	var attached []string
	var valid []bool
	for i := range j.units {
		u := &j.units[i]
		if u.state != failed && u.state != skipped {
			continue
		}

		row := map[string]any{
			"case_id": j.id(i), "params": string(j.params(u)), "status": "skipped", "class": u.class(),
			"group": j.group(int(u.task)),
			"type":  "", "message": u.reason(), "traceback": "", "attempts": 0, "worker": "", "device_uuid": "", "at": "",
		}

		if u.state == failed {
			e := j.stored.failures[i]
			f := e.Failure
			row["status"] = "failed"
			row["class"], _ = classify(rules, f)
			row["type"], row["message"], row["traceback"] = f.Exception, firstLine(f.Message), fullText(f)
			row["attempts"], row["worker"], row["device_uuid"], row["at"] = e.Attempts, e.Worker, e.DeviceUUID, e.At
		}

		text := ""
		if e := j.stored.failures[i]; e != nil && len(e.Attachments) > 0 {
			raw, err := json.Marshal(e.Attachments)
			if err != nil {
				return nil, fmt.Errorf("ledger: %w", err)
			}
			text = string(raw)
		}

		attached, valid = append(attached, text), append(valid, text != "")
		if err := b.Append(row); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
	}

	if !slices.Contains(valid, true) {
		return b.Record(), nil
	}

	return table.WithColumn(b.Record(), stage.AttachmentsColumn, table.Texts(attached, valid)), nil
}

// fullText returns the traceback of a failure, or the message if there is no traceback and the message
// has several lines.
func fullText(f *worker.Failure) string {
	if f.Traceback != "" || firstLine(f.Message) == f.Message {
		return f.Traceback
	}
	return f.Message
}
