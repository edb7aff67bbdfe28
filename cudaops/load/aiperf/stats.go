package aiperf

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"aicplan/sink/base/stats"
)

// Stats are the statistics of a metric. Fields are NaN if they are not meaningful.
type Stats struct {
	Avg, Min, Max, Sum, Std                   float64
	P1, P5, P10, P25, P50, P75, P90, P95, P99 float64
	Count                                     int
}

// Describe computes the statistics of values and sorts values. Like AIPerf, it uses numpy's linear
// percentiles and the population's standard deviation (ddof 0). It returns false if values is empty.
func Describe(values []float64) (Stats, bool) {
	if len(values) == 0 {
		return Stats{}, false
	}

	slices.Sort(values)
	s := Stats{Min: values[0], Max: values[len(values)-1], Count: len(values), Sum: floats.Sum(values)}
	s.Avg, s.Std = s.Sum/float64(len(values)), stat.PopStdDev(values, nil)
	for _, p := range s.percentiles() {
		*p.value = stats.Interpolated(values, p.q/100)
	}

	return s, true
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// percentile is a field of Stats with its name in files.
type percentile struct {
	name  string
	q     float64
	value *float64
}

func (s *Stats) percentiles() []percentile {
	return []percentile{{"p1", 1, &s.P1}, {"p5", 5, &s.P5}, {"p10", 10, &s.P10}, {"p25", 25, &s.P25}, {"p50", 50, &s.P50},
		{"p75", 75, &s.P75}, {"p90", 90, &s.P90}, {"p95", 95, &s.P95}, {"p99", 99, &s.P99}}
}

// named returns the statistics by their names in files, without sum and count.
func (s *Stats) named() map[string]float64 {
	out := map[string]float64{"avg": s.Avg, "min": s.Min, "max": s.Max, "std": s.Std}
	for _, p := range s.percentiles() {
		out[p.name] = *p.value
	}
	return out
}

// values returns the statistics or the value of a metric by the names in CSV files.
func (m *Metric) values() map[string]float64 {
	if !m.Has {
		return map[string]float64{"avg": m.Value}
	}
	out := m.Stats.named()
	out["sum"] = m.Stats.Sum
	return out
}
