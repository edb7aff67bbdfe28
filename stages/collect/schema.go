package collect

import (
	"encoding/json"
	"math"

	"aicplan/sink/catalog"
)

// columnKind is what a column holds.
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
	// needed is true of metrics that every row has.
	needed bool
	// rare columns are left out of a table in which no row has a value.
	rare bool
}

// schema is what measured rows may have in addition to what the workers send, in table
// order.
type schema struct {
	fields []field
	table  string // of the catalog; "" for ops of one's own
}

// measuring are the columns around the metrics that the measuring code of ops
// fills in: before them and behind them.
var (
	beforeMetrics = []field{{name: "kernel_source", kind: word}}
	behindMetrics = []field{
		{name: "samples", kind: integer}, {name: "rel_stdev"}, {name: "p10"}, {name: "p90"},
		{name: "used_cuda_graph", kind: flag}, {name: "sm_clock_mhz"}, {name: "throttled", kind: flag},
		{name: "power", rare: true}, {name: "power_limit", rare: true}, {name: "energy", rare: true},
	}
)

// schemaOf is the schema of rows of a perf table. timed says whether the
// measuring code of ops makes them.
func schemaOf(perf string, timed bool) *schema {
	s := &schema{table: perf}
	if timed {
		s.fields = append(s.fields, beforeMetrics...)
	}
	for _, m := range catalog.SchemaOf(perf).Metrics {
		s.fields = append(s.fields, field{name: m.Name, needed: !m.Lacking})
	}
	if timed {
		s.fields = append(s.fields, behindMetrics...)
	}
	return s
}

// perfTable is the perf table of the rows: the grid's, else the one of the
// runtime's kind.
func (c *Config) perfTable(ofGrid string) string {
	if ofGrid != "" {
		return ofGrid
	}
	return c.kind().Table
}

// schema is what the rows of a grid may have.
func (c *Config) schema(ofGrid string) *schema {
	return schemaOf(c.perfTable(ofGrid), len(c.kind().Measure) > 0)
}
