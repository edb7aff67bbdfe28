package telemetry

import (
	"math"
	"slices"

	"aicplan/cudaops/load/aiperf"
)

// Stats summarizes one metric of one device in a window, in the metric's unit.
type Stats struct {
	Metric Metric

	// Count is the number of values inside the window.
	Count int

	// Values are the statistics of a gauge over the samples inside the window, by AIPerf's names: avg, min, max, sum, std
	// (n-1, and missing for one sample) and p1 to p99.
	Values map[string]float64

	// TimeAvg is the time-weighted mean of a gauge.
	TimeAvg *float64

	// Counters: the sum of the increases in the window.
	Delta *float64

	// Codes: the distinct codes except 0, which means none.
	Codes []int64
}

// summarize returns the statistics of the readings of a metric in the window [from, to].
func summarize(m Metric, times []int64, col []float64, from, to int64) Stats {
	st := Stats{Metric: m}
	var inside []float64
	for i, t := range times {
		if t >= from && t <= to {
			inside = append(inside, col[i])
		}
	}

	if st.Count = len(inside); st.Count == 0 {
		return st
	}

	switch {
	case m.Name == Energy:
		st.Delta = energy(times, col, from, to)
	case m.Kind == Counter:
		st.Delta = increase(times, col, from, to)
	case m.Kind == Code:
		st.Codes = codes(inside)
	default:
		st.Values = gauge(inside)
		if to > from {
			st.TimeAvg = new(integral(times, col, from, to) / (float64(to-from) / 1e9))
		}
	}

	return st
}

// gauge returns the statistics of the values of a window.
func gauge(xs []float64) map[string]float64 {
	out, n := aiperf.GaugeStats(xs), float64(len(xs))
	out["sum"] = out["avg"] * n
	if out["std"] *= math.Sqrt(n / (n - 1)); n == 1 {
		delete(out, "std")
	}
	return out
}

// integral returns the area under col between from and to, in its unit times seconds. A value is valid
// until the next one. Before the first reading, its value is used.
func integral(times []int64, col []float64, from, to int64) (area float64) {
	at, held := from, col[0]
	for i, t := range times {
		if t > to {
			break
		}
		if t >= from {
			area += held * float64(t-at) / 1e9
			at = t
		}
		held = col[i]
	}
	return area + held*float64(to-at)/1e9
}

// increase returns the increase of a counter in [from, to], or nil if it is unknown. Increases between two samples are
// interpolated linearly. A decrease means that the counter restarted at 0. Without a sample before the window, the
// first sample inside is the reference.
func increase(times []int64, col []float64, from, to int64) *float64 {
	total, have := 0.0, false
	for i := 1; i < len(times); i++ {
		before, t := times[i-1], times[i]
		if t <= from || before >= to {
			continue
		}

		grown := col[i] - col[i-1]
		if grown < 0 {
			grown = col[i]
		}
		total += grown * float64(min(t, to)-max(before, from)) / float64(t-before)
		have = true
	}

	if have && slices.ContainsFunc(times, func(t int64) bool { return t >= from && t <= to }) {
		return &total
	}
	return nil
}

// energy is increase for energy. The times before the first and after the last change have the mean power of the
// others. It returns nil if the window has no change.
func energy(times []int64, col []float64, from, to int64) *float64 {
	at, changed := changes(times, col)
	grown := increase(at, changed, from, to)
	if grown == nil || to <= from {
		return grown
	}
	covered := min(to, at[len(at)-1]) - max(from, at[0])
	return new(*grown * float64(to-from) / float64(covered))
}

// changes returns the first reading of each value. A GPU always draws power, so an energy counter that did not change
// was not refreshed, and only changes are samples.
func changes(times []int64, col []float64) (at []int64, changed []float64) {
	for i, v := range col {
		if n := len(changed); n == 0 || v != changed[n-1] {
			at, changed = append(at, times[i]), append(changed, v)
		}
	}
	return at, changed
}

// codes returns the distinct codes of a window.
func codes(values []float64) (out []int64) {
	for _, v := range values {
		if c := int64(v); c != 0 {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
