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
	"aicplan/stages/runtimes"
)

// keepResult stores the result of a unit in memory: its rows by column, or its failure.
func (j *job) keepResult(unit int, e *entry) {
	u := &j.units[unit]
	if e.Failure != nil {
		j.failures = append(j.failures, e)
		u.failure = int32(len(j.failures))
		return
	}
	first, n := j.rows.add(e)
	u.failure, u.row, u.rows = 0, int32(first), int32(n)
}

// failed returns the failure of a unit, or nil if it did not fail.
func (j *job) failed(u *unit) *entry {
	if u.failure == 0 {
		return nil
	}
	return j.failures[u.failure-1]
}

// load reads the journal entries of units that an earlier run finished.
func (j *job) load(journal *checkpoint.Journal) error {
	var want []int
	var ids []string
	for i := range j.units {
		u := &j.units[i]
		if u.failure == 0 && u.rows == 0 && (u.state == measured || u.state == failed) {
			want, ids = append(want, i), append(ids, j.id(i))
		}
	}

	read := journal.Reader()
	for _, at := range journal.InOrder(ids) {
		i := want[at]
		u := &j.units[i]
		e, ok, err := read.Lookup(j.id(i))
		if err != nil {
			return err
		}

		if !ok {
			return fmt.Errorf("internal error: case %s was in the journal and is not any more", j.id(i))
		}

		if u.state == measured {
			if first, n, ok := j.rows.read(e.Payload); ok {
				u.row, u.rows = int32(first), int32(n)
				continue
			}
		}

		d, err := decodeEntry(e)
		if err != nil {
			return err
		}

		j.keepResult(i, d)
	}

	return nil
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
			ok = u.rows > 0
		case failed:
			ok = j.failed(u) != nil
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

// planned returns the table of planned cases with one row per unit: the grid's cases, and the points of
// their sweeps as columns.
func (j *job) planned() (arrow.Record, error) {
	rec := j.cases.Record()
	sweep := j.cases.SweepColumns()
	if sweep == nil {
		return rec, nil
	}

	rows := make([]int, len(j.units))
	ids := make([]string, len(j.units))
	for i := range j.units {
		rows[i], ids[i] = int(j.units[i].task), j.id(i)
	}

	out := table.WithColumn(table.Take(rec, rows), "case_id", table.Texts(ids, nil))
	b := table.NewBuilder()
	for i := range j.units {
		u := &j.units[i]
		if err := b.Append(j.sweepOf(int(u.task)).values[u.point]); err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
	}

	swept := b.Record()
	for _, name := range sweep {
		col := table.Index(swept, name)
		if len(j.units) == 0 { // without cases, the type of the column is unknown
			out = table.WithColumn(out, name, table.Texts(nil, nil))
			continue
		}
		if col < 0 {
			return nil, fmt.Errorf("internal error: the sweep has no column %s", name)
		}
		out = table.WithColumn(out, name, swept.Column(col))
	}

	// Keep status as the last column.
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

// measurements returns the table of measured rows in plan order: the columns of the case, the
// environment, the metrics, and further columns from the workers. It returns nil if no unit was
// measured.
func (j *job) measurements(planned arrow.Record, env *runtimes.Environment) (arrow.Record, error) {
	var at []int
	n := 0
	whole := true // each planned row has exactly one measured row
	for i := range j.units {
		u := &j.units[i]
		if u.state == measured {
			n += int(u.rows)
		}
		whole = whole && u.state == measured && u.rows == 1
	}

	rows := make([]int32, 0, n)
	for i := range j.units {
		u := &j.units[i]
		if u.state != measured {
			continue
		}
		for r := range u.rows {
			rows = append(rows, u.row+r)
			if !whole {
				at = append(at, i)
			}
		}
	}

	if len(rows) == 0 {
		return nil, nil
	}

	rec := table.Drop(planned, "status")
	if !whole {
		rec = table.Take(rec, at)
	}

	at = nil
	add := func(name string, col arrow.Array) { rec = table.WithColumn(rec, name, col) }
	add("framework", j.rows.label(rows, 0, env.Framework))
	add("version", j.rows.label(rows, 1, env.Version))
	add("device", j.rows.label(rows, 2, env.Device))

	for _, m := range j.schema.fields {
		if table.Has(rec, m.name) {
			continue // the grid has it as an axis, such as kernel_source
		}
		if col := j.rows.metric(rows, m.name, m.kind); !m.rare || col.NullN() < col.Len() {
			add(m.name, col)
		}
		delete(j.rows.columns, m.name)
	}

	attempts := make([]int64, len(rows))
	for i, r := range rows {
		attempts[i] = int64(j.rows.attempts[r])
	}

	add("attempts", table.Ints(attempts, nil))
	add("worker", j.rows.texts(rows, j.rows.workers))
	add("device_uuid", j.rows.texts(rows, j.rows.uuids))
	add("started_at", table.TextsOf(len(rows), func(i int, b []byte) []byte { return j.rows.at.append(b, int(rows[i])) }))
	j.rows.attempts, j.rows.workers, j.rows.uuids, j.rows.at = nil, nil, nil, timeColumn{}
	if texts, valid := j.rows.attachments(rows); texts != nil {
		add(stage.AttachmentsColumn, table.Texts(texts, valid))
	}

	for _, name := range j.rows.extras(rows) {
		if table.Has(rec, name) {
			continue // the grid has it as a constant
		}
		col, mixed := j.rows.extra(rows, name)
		if mixed {
			j.mixed = append(j.mixed, name)
		}
		add(name, col)
	}

	j.rows = newRowStore(j.schema) // the table now contains the rows
	return rec, nil
}

// ledger returns the units without a measurement in plan order. It has the attachments column only if
// one of them has attachments.
func (j *job) ledger(rules []Rule) (arrow.Record, error) {
	b := table.NewFixedBuilder(stage.LedgerSchema)
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
			e := j.failed(u)
			f := e.Failure
			row["status"] = "failed"
			row["class"], _ = classify(rules, f)
			row["type"], row["message"], row["traceback"] = f.Exception, firstLine(f.Message), fullText(f)
			row["attempts"], row["worker"], row["device_uuid"], row["at"] = e.Attempts, e.Worker, e.DeviceUUID, e.At
		}

		text := ""
		if e := j.failed(u); u.state == failed && len(e.Attachments) > 0 {
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
