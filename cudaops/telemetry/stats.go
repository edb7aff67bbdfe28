package telemetry

import (
	"math"
	"slices"

	"aicplan/cudaops/measure"
)

// Stats sums up one metric of one device in a window, in the metric's unit.
type Stats struct {
	Metric Metric
	// Of gauges: over the samples inside the window. Std is with n-1; null for
	// one sample.
	Count              int
	Avg, Min, Max, Sum *float64
	Std                *float64
	Percentiles        map[int]float64 // 1, 5, 10, 25, 50, 75, 90, 95, 99
	// TimeAvg weights each value by how long it stood: the mean over time.
	TimeAvg *float64
	// Of counters: the sum of the increases in the window.
	Delta  *float64
	Resets int // how often the counter began anew
	// Of codes: those seen, 0 (none) left out.
	Codes []int64
	// Last is the newest value inside the window, of any kind of metric.
	Last *float64
	// Distinct counts values that differ from the one before.
	Distinct int
}

// Percents are the percentiles of gauges.
var Percents = []int{1, 5, 10, 25, 50, 75, 90, 95, 99}

// last sets the newest value of the window.
func last(st *Stats, times []int64, col []float64, from, to int64) {
	for i := len(times) - 1; i >= 0; i-- {
		if v := col[i]; times[i] >= from && times[i] <= to && !math.IsNaN(v) {
			st.Last = &v
			return
		}
	}
}

// gauge fills st from the samples inside [from, to]; col holds NaN where a
// scrape lacked the metric.
func gauge(st *Stats, times []int64, col []float64, from, to int64) {
	var xs []float64
	for i, t := range times {
		if v := col[i]; t >= from && t <= to && !math.IsNaN(v) {
			if len(xs) == 0 || v != xs[len(xs)-1] {
				st.Distinct++
			}
			xs = append(xs, v)
		}
	}
	st.Count = len(xs)
	if len(xs) == 0 {
		return
	}
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	avg := sum / float64(len(xs))
	lo, hi := slices.Min(xs), slices.Max(xs)
	st.Avg, st.Sum, st.Min, st.Max = &avg, &sum, &lo, &hi
	if len(xs) > 1 {
		ss := 0.0
		for _, x := range xs {
			ss += (x - avg) * (x - avg)
		}
		sd := math.Sqrt(ss / float64(len(xs)-1))
		st.Std = &sd
	}
	sorted := slices.Sorted(slices.Values(xs))
	st.Percentiles = make(map[int]float64, len(Percents))
	for _, p := range Percents {
		st.Percentiles[p] = measure.Percentile(sorted, float64(p)/100)
	}
	if area, ok := integral(times, col, from, to); ok && to > from {
		mean := area / (float64(to-from) / 1e9)
		st.TimeAvg = &mean
	}
}

// integral is the area under col from from to to, in its unit times seconds. A
// value stands until the next one; before the first sample that one's value is
// taken. ok is false without a sample inside.
func integral(times []int64, col []float64, from, to int64) (area float64, ok bool) {
	at, held := from, math.NaN()
	for i, t := range times {
		v := col[i]
		if math.IsNaN(v) || t > to {
			continue
		}
		if t < from {
			held = v
			continue
		}
		ok = true
		if math.IsNaN(held) {
			held = v
		}
		area += held * float64(t-at) / 1e9
		at, held = t, v
	}
	if !ok {
		return 0, false
	}
	return area + held*float64(to-at)/1e9, true
}

// counter fills st with the increase of a counter in [from, to]. Between two
// samples it grows evenly; a sample below the one before is a counter that began
// anew at 0. Without a sample before the window its first one is the reference.
func counter(st *Stats, times []int64, col []float64, from, to int64) {
	total, have := 0.0, false
	prevT, prev := int64(0), math.NaN()
	for i, t := range times {
		v := col[i]
		if math.IsNaN(v) {
			continue
		}
		if t >= from && t <= to {
			st.Count++
		}
		if !math.IsNaN(prev) && t > from && prevT < to {
			grown := v - prev
			if grown < 0 {
				grown = v
				st.Resets++
			}
			if grown > 0 {
				st.Distinct++
			}
			part := 1.0
			if span := t - prevT; span > 0 {
				part = float64(min(t, to)-max(prevT, from)) / float64(span)
			}
			total += grown * part
			have = true
		}
		prevT, prev = t, v
	}
	if have && st.Count > 0 {
		st.Delta = &total
	}
}

// codes fills st with the codes that were seen.
func codes(st *Stats, times []int64, col []float64, from, to int64) {
	for i, t := range times {
		v := col[i]
		if math.IsNaN(v) || t < from || t > to {
			continue
		}
		st.Count++
		if c := int64(v); c != 0 && !slices.Contains(st.Codes, c) {
			st.Codes = append(st.Codes, c)
		}
	}
	slices.Sort(st.Codes)
}
