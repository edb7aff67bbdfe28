package collect

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/runtimes"
)

// hold keeps the result of a unit: its rows by column, or its failure.
func (j *job) hold(unit int, e *entry) {
	u := &j.units[unit]
	if e.Failure != nil {
		u.entry = e
		return
	}
	first, n := j.rows.add(e)
	u.entry, u.row, u.rows = nil, int32(first), int32(n)
}

// load reads the entries of units that an earlier run settled.
func (j *job) load(journal *checkpoint.Journal) error {
	read := journal.Reader()
	for i := range j.units {
		u := &j.units[i]
		if u.entry != nil || u.rows > 0 || (u.state != measured && u.state != failed) {
			continue
		}
		e, ok, err := read.Lookup(u.id)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("internal error: case %s was in the journal and is not any more", u.id)
		}
		if u.state == measured {
			if first, n, ok := j.rows.read(e.Payload); ok {
				u.row, u.rows = int32(first), int32(n)
				continue
			}
		}
		d, err := decodeEntry(e.Payload)
		if err != nil {
			return fmt.Errorf("case %s: %w", u.id, err)
		}
		j.hold(i, d)
	}
	return nil
}

// check holds the ledger against the plan: every unit ended exactly once, as a
// measurement or with a reason.
func (j *job) check() error {
	var wrong []string
	seen := make(map[string]bool, len(j.units))
	for i := range j.units {
		u := &j.units[i]
		ok := !seen[u.id]
		seen[u.id] = true
		switch u.state {
		case measured:
			ok = ok && u.rows > 0
		case failed:
			ok = ok && u.entry != nil && u.entry.Failure != nil
		case skipped:
			ok = ok && u.class != "" && u.reason != ""
		default:
			ok = false
		}
		if !ok {
			wrong = append(wrong, u.id)
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
	return fmt.Errorf("internal error: planned = measured + failed + skipped does not hold; cases without an end: %v%s", wrong, more)
}

// planned is the table of planned cases, one row a unit: the grid's cases with
// the points of their sweeps among the columns.
func (j *job) planned() (arrow.Record, error) {
	rec := j.cases.Record()
	sweep := j.cases.SweepColumns()
	if sweep == nil {
		return rec, nil
	}
	rows := make([]int, len(j.units))
	ids := make([]string, len(j.units))
	for i := range j.units {
		rows[i], ids[i] = j.units[i].task, j.units[i].id
	}
	out := table.WithColumn(table.Take(rec, rows), "case_id", table.Texts(ids, nil))
	b := table.NewBuilder()
	for i := range j.units {
		u := &j.units[i]
		if err := b.Append(j.sweepOf(u.task).values[u.point]); err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
	}
	swept := b.Record()
	for _, name := range sweep {
		col := table.Index(swept, name)
		if col < 0 {
			return nil, fmt.Errorf("internal error: the sweep has no column %s", name)
		}
		out = table.WithColumn(out, name, swept.Column(col))
	}
	// status stays the last column.
	return moveLast(out, "status"), nil
}

func moveLast(rec arrow.Record, name string) arrow.Record {
	at := table.Index(rec, name)
	if at < 0 {
		return rec
	}
	col := rec.Column(at)
	return table.WithColumn(table.Drop(rec, name), name, col)
}

// measurements is the table of measured rows, in the order of the plan: the
// case's columns, the environment's, the metrics, and what else workers sent.
func (j *job) measurements(planned arrow.Record, env *runtimes.Environment) (arrow.Record, error) {
	var at []int
	var rows []int32
	for i := range j.units {
		u := &j.units[i]
		if u.state != measured {
			continue
		}
		for r := range u.rows {
			at, rows = append(at, i), append(rows, u.row+r)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	rec := table.Drop(table.Take(planned, at), "status")
	at = nil
	add := func(name string, col arrow.Array) { rec = table.WithColumn(rec, name, col) }
	add("framework", table.Texts(j.rows.label(rows, 0, env.Framework), nil))
	add("version", table.Texts(j.rows.label(rows, 1, env.Version), nil))
	add("device", table.Texts(j.rows.label(rows, 2, env.Device), nil))
	for _, m := range j.schema.fields {
		if table.Has(rec, m.name) {
			continue // an axis of the grid, such as kernel_source
		}
		if col, known := j.rows.metric(rows, m.name, m.kind); known || !m.rare {
			add(m.name, col)
		}
		delete(j.rows.columns, m.name)
	}
	attempts, started := make([]int64, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		attempts[i], started[i] = int64(j.rows.attempts[r]), j.rows.at.text(int(r))
	}
	add("attempts", table.Ints(attempts, nil))
	add("worker", table.Texts(j.rows.texts(rows, j.rows.workers), nil))
	add("device_uuid", table.Texts(j.rows.texts(rows, j.rows.uuids), nil))
	add("started_at", table.Texts(started, nil))
	if texts, valid := j.rows.attachments(rows); texts != nil {
		add(stage.AttachmentsColumn, table.Texts(texts, valid))
	}
	for _, name := range j.rows.extras(rows) {
		if table.Has(rec, name) {
			continue // a constant of the grid has that name
		}
		add(name, j.rows.extra(rows, name))
	}
	j.rows = newRowStore(j.schema) // they are in the table now
	return rec, nil
}

// ledger lists the units without a measurement, in the order of the plan.
func (j *job) ledger(rules []Rule) (arrow.Record, error) {
	b := table.NewFixedBuilder(stage.LedgerSchema)
	for i := range j.units {
		u := &j.units[i]
		if u.state != failed && u.state != skipped {
			continue
		}
		row := map[string]any{
			"case_id": u.id, "params": string(j.params(u)), "status": "skipped", "class": u.class, "group": j.tasks[u.task].group,
			"type": "", "message": u.reason, "traceback": "", "attempts": 0, "worker": "", "device_uuid": "", "at": "",
		}
		if u.state == failed {
			f := u.entry.Failure
			row["status"] = "failed"
			row["class"], _ = classify(rules, f)
			row["type"], row["message"], row["traceback"] = f.Exception, firstLine(f.Message), fullText(f)
			row["attempts"], row["worker"], row["device_uuid"], row["at"] = u.entry.Attempts, u.entry.Worker, u.entry.DeviceUUID, u.entry.At
		}
		if err := b.Append(row); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
	}
	return b.Record(), nil
}

// fullText is everything that is known of a failure.
func fullText(f *worker.Failure) string {
	if f.Traceback != "" || firstLine(f.Message) == f.Message {
		return f.Traceback
	}
	return f.Message
}
