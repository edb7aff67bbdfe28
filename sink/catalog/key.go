package catalog

import (
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// KeyOf returns the columns that name a row of recs for the readers of the table: its key,
// optional extra columns that one of recs has and, if one of recs has rows of one key in
// several lanes, kernel_source.
func (t *Table) KeyOf(recs ...arrow.Record) []string {
	key := t.Key()
	for _, c := range t.Extra() {
		has := func(rec arrow.Record) bool { return table.Has(rec, c.Name) }
		if c.Role == Optional && slices.ContainsFunc(recs, has) {
			key = append(key, c.Name)
		}
	}

	for _, rec := range recs {
		if t.severalLanes(rec, key) {
			return append(key, "kernel_source")
		}
	}
	return key
}

// severalLanes reports whether rows of one key in rec differ by their lane.
func (t *Table) severalLanes(rec arrow.Record, key []string) bool {
	if t.Lanes == "" {
		return false
	}
	kernels, err := table.Strings(rec, "kernel_source")
	if err != nil {
		return false
	}
	ids, _ := table.Number(rec, key...)

	first := map[uint32]string{} // lane by key
	for row, id := range ids {
		own := t.lane(kernels.Values[row])
		if lane, seen := first[id]; !seen {
			first[id] = own
		} else if lane != own {
			return true
		}
	}
	return false
}

// measurements are the columns of perf files and measurement tables, besides the metrics of
// the catalog, that hold results and the circumstances of one measurement.
var measurements = strings.Fields(`
	power power_limit energy transmit_us notify_us attachments samples rel_stdev p10 p90 passes pass_spread
	executions block_ms protocol operating_point clock_seen_mhz clock_slope parts used_cuda_graph sm_clock_mhz
	throttled launch_bound bytes gbps flops tflops busbw_gbps algbw_gbps attempts worker device_uuid started_at
	seconds case_id`)

// provenance are the columns that name what measured a row, and the kernel that ran.
var provenance = []string{"framework", "version", "device", "kernel_source"}

// Shape lists the columns of a schema that name what was measured, without results and
// without provenance.
func Shape(schema *arrow.Schema) []string {
	var out []string
	for _, f := range schema.Fields() {
		if !slices.Contains(measurements, f.Name) && !builtIn().metrics[f.Name] && !slices.Contains(provenance, f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}
