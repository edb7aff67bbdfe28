package catalog

import (
	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// KeyOf returns the columns that name a row of recs for the readers of the table: its key
// and, if one of recs has rows of one key in several lanes, kernel_source.
func (t *Table) KeyOf(recs ...arrow.Record) []string {
	key := t.Key()
	for _, rec := range recs {
		if t.severalLanes(rec, key) {
			return append(key, "kernel_source")
		}
	}
	return key
}

// severalLanes reports whether rows of one key in rec differ by their lane.
func (t *Table) severalLanes(rec arrow.Record, key []string) bool {
	if t.lanes == "" || !table.Has(rec, "kernel_source") {
		return false
	}
	kernels, words, err := table.Codes(rec, "kernel_source")
	if err != nil {
		return false
	}
	ids, err := table.NewKeyIndex(key, table.KeyOptions{}).Number(rec)
	if err != nil {
		return false
	}

	first := map[uint32]string{} // lane by key
	for row, id := range ids {
		kernel := ""
		if code := kernels[row]; code >= 0 {
			kernel = words[code]
		}
		lane, seen := first[id]
		if !seen {
			first[id] = t.lane(kernel)
		} else if lane != t.lane(kernel) {
			return true
		}
	}
	return false
}
