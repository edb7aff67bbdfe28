package collect

import (
	"fmt"

	"aicplan/cudaops/measure"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// estimateFrom works the time for the cases out from the latencies of another
// table with the same columns, for plans that have no history of their own. It
// counts the executions that the measure block asks for and nothing else.
func (c *Config) estimateFrom(ref *stage.Plan, planned *stage.Dataset, counts *stage.CaseCounts) {
	if ref == nil || ref.Data == nil || ref.Data.Table == nil || planned == nil || planned.Planned == nil || counts.Collect == 0 {
		return
	}
	t, cases := ref.Data.Table, planned.Planned
	var shared []string
	for _, name := range planned.Info.Params {
		if table.Has(t, name) {
			shared = append(shared, name)
		}
	}
	metric := catalog.SchemaOf(ref.Data.Info.Perf).Primary()
	unit, isTime := map[string]float64{"ms": 1e-3, "us": 1e-6}[metric.Unit]
	latency, err := table.Float64s(t, metric.Name)
	if err != nil || len(shared) == 0 || !isTime || len(c.kind().Measure) == 0 {
		return
	}
	have, err := table.Keys(t, shared...)
	if err != nil {
		return
	}
	want, err := table.Keys(cases, shared...)
	if err != nil {
		return
	}
	seconds := map[string]float64{}
	for i, k := range have {
		if _, dup := seconds[k]; !dup && !latency.Null(i) {
			seconds[k] = executionSeconds(c.settings, latency.Values[i]*unit)
		}
	}
	total, matched := 0.0, 0
	for _, k := range want {
		if s, ok := seconds[k]; ok {
			total += s
			matched++
		}
	}
	if matched == 0 {
		return
	}
	counts.Seconds = total / float64(matched) * float64(counts.Collect)
	counts.Basis = fmt.Sprintf("published latencies of %d of %d cases, as often as the measure block executes them; starting, setting up and failing not counted", matched, len(want))
}

// executionSeconds is the device time that measuring one case takes at least.
func executionSeconds(s measure.Settings, latency float64) float64 {
	if s.Protocol == measure.ProtocolReference {
		const executions = 3 + 3 + 6 + 1 // eager, replays, timed replays, capture
		return executions * latency
	}
	block := max(s.MinBlockSeconds, latency)
	return float64(s.Passes) * (s.IdleGapSeconds + s.WarmupSeconds + latency + float64(s.MinSamples)*block)
}
