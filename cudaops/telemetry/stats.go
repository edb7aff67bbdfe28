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
		energy(&st, times, col, from, to)
	case m.Kind == Counter:
		counter(&st, times, col, from, to)
	case m.Kind == Code:
		codes(&st, inside)
	default:
		gauge(&st, inside)
		if to > from {
			st.TimeAvg = new(integral(times, col, from, to) / (float64(to-from) / 1e9))
		}
	}

	return st
}

// gauge sets the statistics of the values of a window.
func gauge(st *Stats, xs []float64) {
	st.Values = aiperf.GaugeStats(xs)
	n := float64(len(xs))
	st.Values["sum"] = st.Values["avg"] * n
	if st.Values["std"] *= math.Sqrt(n / (n - 1)); n == 1 {
		delete(st.Values, "std")
	}
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

// counter sets the increase of a counter in [from, to]. Increases between two samples are interpolated
// linearly. A decrease means that the counter restarted at 0. Without a sample before the window, the first
// sample inside is the reference.
func counter(st *Stats, times []int64, col []float64, from, to int64) {
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
		st.Delta = &total
	}
}

// energy is counter for energy. A GPU always draws power, so a value that did not change was not refreshed, and only
// changes are samples. The times before the first and after the last of them have the mean power of the others.
func energy(st *Stats, times []int64, col []float64, from, to int64) {
	counter(st, times, col, from, to)
	var at []int64
	var changed []float64
	for i, v := range col {
		if n := len(changed); n == 0 || v != changed[n-1] {
			at, changed = append(at, times[i]), append(changed, v)
		}
	}

	var fresh Stats
	if counter(&fresh, at, changed, from, to); fresh.Delta != nil && st.Delta != nil && to > from {
		covered := min(to, at[len(at)-1]) - max(from, at[0])
		total := *fresh.Delta * float64(to-from) / float64(covered)
		st.Delta = &total
	}
}

// codes sets the distinct codes of a window.
func codes(st *Stats, values []float64) {
	for _, v := range values {
		if c := int64(v); c != 0 && !slices.Contains(st.Codes, c) {
			st.Codes = append(st.Codes, c)
		}
	}

	slices.Sort(st.Codes)
}
