package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// refill offers a journal that lost cases the rows that the stage's own table has
// of them. The record names the journal that they were taken from. It says how
// many there are.
func refill(store *checkpoint.Store, address string, cases *grid.Cases, journal *checkpoint.Journal) (int, error) {
	rec, err := store.ReadStage(address)
	if errors.Is(err, checkpoint.ErrMissing) || errors.Is(err, checkpoint.ErrCorrupt) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if rec.Journal != journal.Digest() || rec.Outputs.Table == "" || rec.JournalCases <= journal.Count(checkpoint.Measured) && journal.Kept(rec.JournalRead) {
		return 0, nil
	}
	// The journal may have more cases, of other stages, and lack some of these.
	missing := false
	err = store.RecordParts(rec.Outputs.Table, func(part arrow.Record) error {
		ids, err := table.Strings(part, "case_id")
		if err == nil && len(journal.Misses(ids.Values)) > 0 {
			missing = true
		}
		return err
	})
	if errors.Is(err, checkpoint.ErrMissing) || errors.Is(err, checkpoint.ErrCorrupt) {
		return 0, nil // both are lost: the cases are measured again
	}
	if err != nil {
		return 0, fmt.Errorf("the table of %s: %w", address, err)
	}
	if !missing {
		return 0, nil
	}
	tab, err := store.GetRecord(rec.Outputs.Table)
	if err != nil {
		return 0, err
	}
	ids, err := table.Strings(tab, "case_id")
	if err != nil {
		return 0, fmt.Errorf("the table of %s: %w", address, err)
	}
	skip := slices.Concat(ours, cases.Columns(), cases.SweepColumns())
	for _, k := range cases.Spec().Constants {
		skip = append(skip, k.Name)
	}
	var entries []checkpoint.Entry
	at := map[string]*entry{}
	var order []string
	for _, i := range journal.Misses(ids.Values) {
		all := table.Row(tab, i)
		row := worker.Row{}
		for name, v := range all {
			if v = plainValue(v); v != nil && !slices.Contains(skip, name) {
				row[name] = v
			}
		}
		id := ids.Values[i]
		if at[id] == nil {
			at[id] = &entry{Attempts: 1, Worker: textOf(all["worker"]), DeviceUUID: textOf(all["device_uuid"]), At: textOf(all["started_at"]),
				Label: &label{textOf(all["framework"]), textOf(all["version"]), textOf(all["device"])}}
			if n, ok := all["attempts"].(int64); ok {
				at[id].Attempts = int(n)
			}
			// Their files are objects of their own, which the record names too.
			if at[id].Attachments, err = stage.Attachments(tab, i); err != nil {
				return 0, fmt.Errorf("the table of %s: %w", address, err)
			}
			order = append(order, id)
		}
		at[id].Rows = append(at[id].Rows, row)
	}
	for _, id := range order {
		payload, err := at[id].encode()
		if err != nil {
			return 0, fmt.Errorf("case %s: %w", id, err)
		}
		entries = append(entries, checkpoint.Entry{ID: id, Kind: checkpoint.Measured, Payload: payload})
	}
	journal.Offer(entries)
	return journal.Offered(), nil
}

// plainValue is a cell as a worker sends it.
func plainValue(v any) any {
	switch v := v.(type) {
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case float64:
		return json.Number(strconv.FormatFloat(v, 'g', -1, 64))
	case string, bool:
		return v
	}
	return nil
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}
