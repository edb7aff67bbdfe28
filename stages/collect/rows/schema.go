package rows

import (
	"encoding/json"
	"math"

	"aicplan/sink/catalog"
)

// Kind is the type of a column.
type Kind int

// The types of columns.
const (
	Number Kind = iota
	Integer
	Flag
	Word
	untyped // a column that a worker has added; its type depends on all values
)

func (k Kind) holds(v any) bool {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil || math.IsInf(f, 0) {
			return false
		}
		return k == Number || (k == Integer && f == math.Trunc(f) && math.Abs(f) < 1<<53)
	case bool:
		return k == Flag
	case string:
		return k == Word
	}

	return false
}

// Field is a column that measured rows may have.
type Field struct {
	Name string
	Kind Kind
	// Needed is set for metrics that every row must have, and Positive for the first of them unless zero is one of its
	// values.
	Needed, Positive bool
	// Rare columns are left out of a table if no row has a value.
	Rare bool
}

// Schema lists the columns that measured rows may have besides the worker's extra columns, in table order.
type Schema []Field

// Columns that the measuring code of ops adds before and after the metrics.
var (
	beforeMetrics = Schema{{Name: "kernel_source", Kind: Word}}
	afterMetrics  = Schema{
		{Name: "samples", Kind: Integer}, {Name: "rel_stdev"}, {Name: "p10"}, {Name: "p90"},
		{Name: "used_cuda_graph", Kind: Flag}, {Name: "sm_clock_mhz"}, {Name: "throttled", Kind: Flag},
		{Name: "launch_bound", Kind: Flag, Rare: true},
		{Name: "power", Rare: true}, {Name: "power_limit", Rare: true}, {Name: "energy", Rare: true},
	}
)

// SchemaOf returns the schema of a perf table, which the catalog or the plan declares. timed adds the columns of
// the measuring code.
func SchemaOf(tables *catalog.Catalog, perf string, timed bool) Schema {
	var s Schema
	if timed {
		s = append(s, beforeMetrics...)
	}

	for i, m := range tables.SchemaOf(perf).Metrics {
		s = append(s, Field{Name: m.Name, Needed: !m.Lacking, Positive: i == 0 && !m.Zero})
	}

	if timed {
		s = append(s, afterMetrics...)
	}

	return s
}
