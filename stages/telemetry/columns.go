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

// Columns returns the columns of a row from a window. Only the GPUs of the row count. Power, energy and memory are sums
// over several GPUs; utilisation, clocks and temperatures are means. A GPU and its MIG slices count once: see counted.
// Unknown values are omitted, and therefore null in the table: also means and energy of a window that the samples do
// not cover.
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

	samples, refresh, gap, stale := 0, 0.0, 0.0, false
	for i, g := range gpus {
		if i == 0 || g.Samples < samples {
			samples = g.Samples
		}
		refresh = math.Max(refresh, float64(g.Refresh)/1e6)
		gap = math.Max(gap, float64(g.Gap)/1e6)
		stale = stale || g.Stale
	}

	out["telemetry_samples"] = integer(samples)
	silent := func(uuid string) bool {
		return !slices.ContainsFunc(gpus, func(g *telemetry.GPUWindow) bool { return strings.EqualFold(g.GPU.UUID, uuid) })
	}
	if len(gpus) == 0 || slices.ContainsFunc(of.named, silent) || slices.ContainsFunc(w.Silent, of.has) {
		return out // some of the row's GPUs reported nothing
	}

	out["telemetry_stale"] = stale
	out["telemetry_gap_ms"] = number(gap)
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

// gaugeColumn defines the columns of one metric.
type gaugeColumn struct {
	metric, name string
	sum          bool // over the GPUs; else the mean
	whole        bool // MIG slices report the value of the whole GPU
}

var gaugeColumns = []gaugeColumn{
	{telemetry.Power, "gpu_power_w", true, true},
	{telemetry.Utilization, "gpu_utilization_pct", false, false},
	{telemetry.MemoryUsed, "gpu_memory_gb", true, false},
	{telemetry.SMClock, "gpu_sm_clock_mhz", false, true},
	{telemetry.Temperature, "gpu_temperature_c", false, true},
}

// counted returns the windows whose values of a metric count. If MIG slices report the value of the whole GPU, it is
// one window for each GPU. Otherwise, it is those of the slices, or of the GPU itself if its slices do not report the
// metric.
func counted(gpus []*telemetry.GPUWindow, metric string, whole bool) []*telemetry.GPUWindow {
	reports := func(g *telemetry.GPUWindow) bool { return g.Get(metric) != nil }
	isSlice := func(g *telemetry.GPUWindow) bool { return g.GPU.InstanceID != "" }
	var out []*telemetry.GPUWindow
	for i, g := range gpus {
		sameGPU := func(o *telemetry.GPUWindow) bool {
			return strings.EqualFold(o.GPU.UUID, g.GPU.UUID) && (g.GPU.UUID != "" ||
				o.Source == g.Source && o.GPU.Hostname == g.GPU.Hostname && o.GPU.Index == g.GPU.Index)
		}
		if slices.ContainsFunc(gpus[:i], sameGPU) {
			continue
		}

		all := slices.DeleteFunc(slices.Clone(gpus), func(o *telemetry.GPUWindow) bool { return !sameGPU(o) })
		parts := slices.DeleteFunc(slices.Clone(all), func(o *telemetry.GPUWindow) bool { return !isSlice(o) })
		switch {
		case whole:
			out = append(out, all[max(0, slices.IndexFunc(all, reports))])
		case slices.ContainsFunc(parts, reports) || len(parts) == len(all):
			out = append(out, parts...)
		default:
			out = append(out, slices.DeleteFunc(all, isSlice)...)
		}
	}
	return out
}

func (c gaugeColumn) fill(out worker.Row, gpus []*telemetry.GPUWindow) {
	gpus = counted(gpus, c.metric, c.whole)
	total, n := 0.0, 0
	percentiles := map[string][]float64{} // of the single GPUs

	highest := math.Inf(-1)
	for _, g := range gpus {
		s := g.Get(c.metric)
		if s == nil || s.TimeAvg == nil {
			continue
		}

		total += *s.TimeAvg
		n++
		highest = math.Max(highest, s.Values["max"])

		for _, p := range []string{"p50", "p95"} {
			percentiles[p] = append(percentiles[p], s.Values[p])
		}
	}

	if n < len(gpus) {
		return // sum and mean are unknown if one value is
	}

	if !c.sum {
		total /= float64(n)
	}

	out[c.name] = number(total)
	out[c.name+"_max"] = number(highest)
	for p, values := range percentiles {
		out[c.name+"_"+p] = number(measure.Mean(values))
	}
}

// energy adds the energy of all GPUs in joules: from their counters, and as the integral of their power.
func energy(out worker.Row, gpus []*telemetry.GPUWindow) {
	byCounter, byPower := counted(gpus, telemetry.Energy, true), counted(gpus, telemetry.Power, true)
	joules, known := 0.0, true
	for _, g := range byCounter {
		if s := g.Get(telemetry.Energy); s != nil && s.Delta != nil {
			joules += *s.Delta
		} else {
			known = false
		}
	}
	if known {
		out["gpu_energy_j"] = number(joules)
	}

	joules, known = 0, true
	for _, g := range byPower {
		if g.EnergyByPower != nil {
			joules += *g.EnergyByPower
		} else {
			known = false
		}
	}
	if known {
		out["gpu_energy_by_power_j"] = number(joules)
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

// PerWork adds the energy per token and per request if the row has their numbers, but not to repeats with warm-ups,
// whose energy is part of the row's.
func PerWork(row worker.Row) {
	joules, ok := row["gpu_energy_j"].(json.Number)
	if !ok || row[RepeatStart] != nil && row[WarmupStart] != nil {
		return
	}

	j, _ := joules.Float64()
	for column, per := range map[string]string{"energy_per_output_token_j": "output_tokens",
		"energy_per_request_j": "succeeded"} {
		if n, ok := row[per].(json.Number); ok {
			if f, _ := n.Float64(); f > 0 {
				row[column] = number(j / f)
			}
		}
	}
}

func number(f float64) json.Number { return json.Number(strconv.FormatFloat(f, 'g', 9, 64)) }

func integer(n int) json.Number { return json.Number(strconv.Itoa(n)) }
