package rowkey

import (
	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// KeyOf returns the columns that name a row of recs for the readers of their
// table: its key and, where one of recs has rows of one key in several lanes,
// kernel_source.
func KeyOf(t *catalog.Table, recs ...arrow.Record) []string {
	key := t.Key()
	for _, rec := range recs {
		if hasLanes(t, rec, key) {
			return append(key, "kernel_source")
		}
	}
	return key
}

// hasLanes says whether rows of one key in rec differ by their lane.
func hasLanes(t *catalog.Table, rec arrow.Record, key []string) bool {
	if !t.HasLanes() || !table.Has(rec, "kernel_source") {
		return false
	}
	kernels, err := table.Strings(rec, "kernel_source")
	if err != nil {
		return false
	}
	lanes := map[string]string{} // by kernel
	last := ""
	several := false
	for i, kernel := range kernels.Values {
		lane, ok := lanes[kernel]
		if !ok {
			lane = t.Lane(kernel)
			lanes[kernel] = lane
		}
		several = several || i > 0 && lane != last
		last = lane
	}
	if !several {
		return false
	}
	ix := New(key, Options{})
	ids, err := ix.Number(rec)
	if err != nil {
		return false
	}
	first := make([]string, ix.Len())
	seen := make([]bool, ix.Len())
	for row, id := range ids {
		lane := lanes[kernels.Values[row]]
		if seen[id] && first[id] != lane {
			return true
		}
		seen[id], first[id] = true, lane
	}
	return false
}
