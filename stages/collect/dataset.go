package collect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/runtimes"
)

// load reads the entries of units that an earlier run settled.
func (j *job) load(journal *checkpoint.Journal) error {
	for i := range j.units {
		u := &j.units[i]
		if u.entry != nil || (u.state != measured && u.state != failed) {
			continue
		}
		e, ok, err := journal.Lookup(u.id)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("internal error: case %s was in the journal and is not any more", u.id)
		}
		if u.entry, err = decodeEntry(e.Payload); err != nil {
			return fmt.Errorf("case %s: %w", u.id, err)
		}
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
			ok = ok && u.entry != nil && len(u.entry.Rows) > 0
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
	var rows []worker.Row
	var entries []*entry
	extra := map[string]bool{}
	for i := range j.units {
		u := &j.units[i]
		if u.state != measured {
			continue
		}
		for _, r := range u.entry.Rows {
			at, rows, entries = append(at, i), append(rows, r), append(entries, u.entry)
			for name := range r {
				extra[name] = true
			}
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	rec := table.Drop(table.Take(planned, at), "status")
	n := len(rows)
	add := func(name string, col arrow.Array) { rec = table.WithColumn(rec, name, col) }
	frameworks, versions, devices := make([]string, n), make([]string, n), make([]string, n)
	for i, e := range entries {
		frameworks[i], versions[i], devices[i] = env.Framework, env.Version, env.Device
		if e.Label != nil {
			frameworks[i], versions[i], devices[i] = e.Label.Framework, e.Label.Version, e.Label.Device
		}
	}
	add("framework", table.Texts(frameworks, nil))
	add("version", table.Texts(versions, nil))
	add("device", table.Texts(devices, nil))
	for _, m := range metrics {
		delete(extra, m.name)
		if table.Has(rec, m.name) {
			continue // an axis of the grid, such as kernel_source
		}
		col, known := metricColumn(rows, m.name, m.kind)
		if known || (m.name != "power" && m.name != "power_limit" && m.name != "energy") {
			add(m.name, col)
		}
	}
	attempts, workers := make([]int64, n), make([]string, n)
	uuids, started := make([]string, n), make([]string, n)
	for i, e := range entries {
		attempts[i], workers[i], uuids[i], started[i] = int64(e.Attempts), e.Worker, e.DeviceUUID, e.At
	}
	add("attempts", table.Ints(attempts, nil))
	add("worker", table.Texts(workers, nil))
	add("device_uuid", table.Texts(uuids, nil))
	add("started_at", table.Texts(started, nil))
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if table.Has(rec, name) {
			continue // a constant of the grid has that name
		}
		add(name, extraColumn(rows, name))
	}
	return rec, nil
}

// metricColumn builds one metric; known is false when no row has it.
func metricColumn(rows []worker.Row, name string, k kind) (col arrow.Array, known bool) {
	n := len(rows)
	valid := make([]bool, n)
	floats, ints := make([]float64, n), make([]int64, n)
	texts, flags := make([]string, n), make([]bool, n)
	for i, r := range rows {
		switch v := r[name].(type) {
		case json.Number:
			f, err := v.Float64()
			floats[i], ints[i], valid[i] = f, int64(f), err == nil
		case string:
			texts[i], valid[i] = v, true
		case bool:
			flags[i], valid[i] = v, true
		}
	}
	known = slices.Contains(valid, true)
	if !slices.Contains(valid, false) {
		valid = nil
	}
	switch k {
	case integer:
		return table.Ints(ints, valid), known
	case flag:
		return table.Flags(flags, valid), known
	case word:
		return table.Texts(texts, valid), known
	}
	return table.Floats(floats, valid), known
}

// extraColumn builds a column that the worker brought. Values of mixed types
// become text: a column of one row must not cost the others.
func extraColumn(rows []worker.Row, name string) arrow.Array {
	build := func(conv func(any) any) (arrow.Array, error) {
		b := table.NewBuilder(arrow.Field{Name: name})
		for _, r := range rows {
			if err := b.Append(map[string]any{name: conv(r[name])}); err != nil {
				return nil, err
			}
		}
		return b.Record().Column(0), nil
	}
	col, err := build(func(v any) any { return v })
	if err != nil {
		col, err = build(func(v any) any {
			if v == nil {
				return nil
			}
			return fmt.Sprint(v)
		})
	}
	if err != nil {
		panic("collect: a column of texts: " + err.Error())
	}
	return col
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
