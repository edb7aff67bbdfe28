package telemetry

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/telemetry"
	"aicplan/cudaops/worker"
)

// Columns are what rows get from a window. Where several GPUs were watched,
// power, energy and memory are sums over them; utilisation, clocks and
// temperatures are means, and percentiles are over all their samples. Only the GPUs
// of the row are in them. What nobody told is left out, and so null in the table.
func Columns(w *telemetry.Window, of Counted) worker.Row {
	var gpus []*telemetry.GPUWindow
	for _, g := range w.GPUs {
		if of.has(g.GPU) {
			gpus = append(gpus, g)
		}
	}

	out := worker.Row{
		"telemetry_gpus": integer(len(gpus)), "telemetry_lost": integer(w.Lost), "telemetry_blanks": integer(w.Blanks),
	}

	samples, refresh, stale := 0, 0.0, false
	for i, g := range gpus {
		if i == 0 || g.Samples < samples {
			samples = g.Samples
		}
		refresh = math.Max(refresh, float64(g.Refresh)/1e6)
		stale = stale || g.Stale
	}

	out["telemetry_samples"] = integer(samples)
	silent := func(uuid string) bool {
		return !slices.ContainsFunc(gpus, func(g *telemetry.GPUWindow) bool { return strings.EqualFold(g.GPU.UUID, uuid) })
	}
	if len(gpus) == 0 || slices.ContainsFunc(of.named, silent) {
		return out // figures of a part of its GPUs are not the case's
	}

	out["telemetry_stale"] = stale
	if refresh > 0 {
		out["telemetry_refresh_ms"] = number(refresh)
	}

	for _, c := range gaugeColumns {
		c.fill(out, gpus)
	}

	energy(out, gpus)
	codes(out, gpus)
	return out
}

// gaugeColumn makes columns of one metric.
type gaugeColumn struct {
	metric, name string
	sum          bool // over the GPUs; else the mean
	percentiles  bool
}

var gaugeColumns = []gaugeColumn{
	{telemetry.Power, "gpu_power_w", true, true},
	{telemetry.Utilization, "gpu_utilization_pct", false, true},
	{telemetry.MemoryUsed, "gpu_memory_gb", true, true},
	{telemetry.SMClock, "gpu_sm_clock_mhz", false, true},
	{telemetry.Temperature, "gpu_temperature_c", false, true},
}

func (c gaugeColumn) fill(out worker.Row, gpus []*telemetry.GPUWindow) {
	total, n := 0.0, 0
	var at [101][]float64 // percentiles of the single GPUs

	highest := math.Inf(-1)
	for _, g := range gpus {
		s := g.Get(c.metric)
		if s == nil || s.TimeAvg == nil {
			continue
		}

		total += *s.TimeAvg
		n++
		highest = math.Max(highest, *s.Max)

		for p, v := range s.Percentiles {
			at[p] = append(at[p], v)
		}
	}

	if n == 0 || c.sum && n < len(gpus) {
		return // without one GPU's value the sum is unknown
	}

	if !c.sum {
		total /= float64(n)
	}

	out[c.name] = number(total)
	out[c.name+"_max"] = number(highest)
	if c.percentiles {
		for _, p := range []int{50, 95} {
			out[c.name+"_p"+strconv.Itoa(p)] = number(measure.Mean(at[p]))
		}
	}
}

// energy sums up the GPUs' energy in joules: by their counters, and as the
// integral of their power.
func energy(out worker.Row, gpus []*telemetry.GPUWindow) {
	counted, integrated := 0.0, 0.0
	byCounter, byPower := 0, 0
	for _, g := range gpus {
		if s := g.Get(telemetry.Energy); s != nil && s.Delta != nil {
			counted += *s.Delta
			byCounter++
		}
		if g.EnergyByPower != nil {
			integrated += *g.EnergyByPower
			byPower++
		}
	}

	if byCounter == len(gpus) {
		out["gpu_energy_j"] = number(counted)
	}

	if byPower == len(gpus) {
		out["gpu_energy_by_power_j"] = number(integrated)
	}
}

func codes(out worker.Row, gpus []*telemetry.GPUWindow) {
	var all []int64
	known := false
	for _, g := range gpus {
		if s := g.Get(telemetry.XID); s != nil {
			known = true
			all = append(all, s.Codes...)
		}
	}

	if !known {
		return
	}

	slices.Sort(all)
	var text []string
	for _, c := range slices.Compact(all) {
		text = append(text, strconv.FormatInt(c, 10))
	}

	out["gpu_xids"] = strings.Join(text, " ")
}

// PerWork adds the energy of a token and of a request, where the row says how
// many there were.
func PerWork(row worker.Row) {
	joules, ok := row["gpu_energy_j"].(json.Number)
	if !ok {
		return
	}

	j, err := joules.Float64()
	if err != nil {
		return
	}

	for column, per := range map[string]string{"energy_per_output_token_j": "output_tokens",
		"energy_per_request_j": "succeeded"} {
		if n, ok := row[per].(json.Number); ok {
			if f, err := n.Float64(); err == nil && f > 0 {
				row[column] = number(j / f)
			}
		}
	}
}

func number(f float64) json.Number { return json.Number(strconv.FormatFloat(f, 'g', 9, 64)) }

func integer(n int) json.Number { return json.Number(strconv.Itoa(n)) }
