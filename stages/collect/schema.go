package collect

import (
	"encoding/json"
	"math"

	"aicplan/sink/catalog"
)

// columnKind is the type of a column.
type columnKind int

const (
	number columnKind = iota
	integer
	flag
	word
)

func (k columnKind) holds(v any) bool {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil || math.IsInf(f, 0) {
			return false
		}
		return k == number || (k == integer && f == math.Trunc(f) && math.Abs(f) < 1<<53)
	case bool:
		return k == flag
	case string:
		return k == word
	}

	return false
}

// field is a column that measured rows may have.
type field struct {
	name string
	kind columnKind
	// needed is set for metrics that every row must have.
	needed bool
	// rare columns are left out of a table if no row has a value.
	rare bool
}

// schema lists the columns that measured rows may have besides the worker's extra columns, in table
// order.
type schema struct {
	fields []field
	table  string // in the catalog; "" for custom ops
}

// Columns that the measuring code of ops adds before and after the metrics.
var (
	beforeMetrics = []field{{name: "kernel_source", kind: word}}
	behindMetrics = []field{
		{name: "samples", kind: integer}, {name: "rel_stdev"}, {name: "p10"}, {name: "p90"},
		{name: "used_cuda_graph", kind: flag}, {name: "sm_clock_mhz"}, {name: "throttled", kind: flag},
		{name: "power", rare: true}, {name: "power_limit", rare: true}, {name: "energy", rare: true},
	}
)

// schemaOf returns the schema of a perf table. timed adds the columns of the measuring code.
func schemaOf(perf string, timed bool) *schema { return schemaIn(nil, perf, timed) }

// schemaIn is schemaOf for a table that may be declared by the plan.
func schemaIn(tables *catalog.Catalog, perf string, timed bool) *schema {
	s := &schema{table: perf}
	if timed {
		s.fields = append(s.fields, beforeMetrics...)
	}

	for _, m := range tables.SchemaOf(perf).Metrics {
		s.fields = append(s.fields, field{name: m.Name, needed: !m.Lacking})
	}

	if timed {
		s.fields = append(s.fields, behindMetrics...)
	}

	return s
}

// perfTable returns the perf table of the rows: the grid's, or that of the runtime's kind if the grid
// has none.
func (c *Config) perfTable(ofGrid string) string {
	if ofGrid != "" {
		return ofGrid
	}
	return c.about().Table
}

// schema returns the columns that the rows of a grid may have.
func (c *Config) schema(ofGrid string) *schema {
	return schemaIn(c.tables, c.perfTable(ofGrid), len(c.about().Measure) > 0)
}
