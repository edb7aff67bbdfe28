package tree

import (
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// Defaults are what readers assume for optional key columns that a file lacks.
var Defaults = map[string]int64{"window_size": 0}

// Index returns an index of rows by the columns of a key, for which readers assume Defaults.
func Index(key []string) *table.KeyIndex {
	return table.NewKeyIndex(key, table.KeyOptions{Missing: Defaults})
}

// MergeReport counts the rows of a merge.
type MergeReport struct {
	Added    int      `json:"added"`    // rows whose key was not there
	Replaced int      `json:"replaced"` // rows of the old file that new ones took the place of
	Kept     int      `json:"kept"`     // rows of the old file that stay
	Columns  []string `json:"columns,omitempty"`
}

// Merge puts new rows into old ones: a new row takes the place of every old
// row with its key, the other old rows stay. Columns that one side lacks are
// null there, except that optional key columns get their default. Columns of
// different types are an error; no row is ever dropped for its schema.
func Merge(old, now arrow.Record, key []string) (arrow.Record, MergeReport, error) {
	var rep MergeReport
	for _, k := range key {
		_, optional := Defaults[k]
		if !optional && table.Has(old, k) != table.Has(now, k) {
			where, other := "the file there", "the new data"
			if table.Has(now, k) {
				where, other = other, where
			}
			return nil, rep, fmt.Errorf(
				"%s has the key column %q and %s does not, so their rows cannot be matched; nothing was changed", where,
				k, other)
		}
	}

	ix := Index(key)
	newIDs := ix.Number(now)
	fresh := ix.Len()
	oldIDs := ix.Number(old)
	seen := make([]bool, fresh)
	var keep []int
	for i, id := range oldIDs {
		if int(id) < fresh {
			rep.Replaced++
			seen[id] = true
			continue
		}

		keep = append(keep, i)
	}

	rep.Kept = len(keep)
	for _, id := range newIDs {
		if !seen[id] {
			rep.Added++
		}
	}

	for _, c := range table.Names(old) {
		if !table.Has(now, c) {
			rep.Columns = append(rep.Columns, "-"+c)
		}
	}

	for _, c := range table.Names(now) {
		if !table.Has(old, c) {
			rep.Columns = append(rep.Columns, "+"+c)
		}
	}

	if len(keep) == 0 {
		return now, rep, nil
	}
	rest := table.Take(old, keep)
	for name, v := range Defaults {
		switch {
		case table.Has(now, name) && !table.Has(rest, name):
			rest = table.WithColumn(rest, name, table.Constant(v, len(keep)))
		case table.Has(rest, name) && !table.Has(now, name):
			now = table.WithColumn(now, name, table.Constant(v, table.Len(now)))
		}
	}

	out, err := table.Concat(now, rest)
	if err != nil {
		return nil, rep, fmt.Errorf("the file there does not fit the new data, nothing was changed: %w", err)
	}

	return out, rep, nil
}

// Text is the report as one line.
func (r MergeReport) Text() string {
	s := fmt.Sprintf("%d rows added, %d replaced, %d kept", r.Added, r.Replaced, r.Kept)
	if len(r.Columns) > 0 {
		s += ", columns " + strings.Join(r.Columns, " ")
	}

	return s
}
