package aiperf

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"aicplan/sink/base/stats"
)

// Stats are the statistics of a metric by their names in files: avg, min, max, std, sum, count, and percentiles. Those
// that are not meaningful are missing. A metric with a single value has avg alone.
type Stats map[string]float64

// percentiles are the percentiles of Stats with their shares.
var percentiles = []struct {
	name  string
	share float64
}{{"p1", 0.01}, {"p5", 0.05}, {"p10", 0.1}, {"p25", 0.25}, {"p50", 0.5}, {"p75", 0.75}, {"p90", 0.9}, {"p95", 0.95},
	{"p99", 0.99}}

// Describe computes the statistics of values and sorts values. Like AIPerf, it uses numpy's linear
// percentiles and the population's standard deviation (ddof 0). It returns nil if values is empty.
func Describe(values []float64) Stats {
	if len(values) == 0 {
		return nil
	}

	slices.Sort(values)
	n, sum := float64(len(values)), floats.Sum(values)
	s := Stats{"avg": sum / n, "min": values[0], "max": values[len(values)-1], "std": stat.PopStdDev(values, nil),
		"sum": sum, "count": n}
	for _, p := range percentiles {
		s[p.name] = stats.Interpolated(values, p.share)
	}
	return s
}

// get returns a statistic, or NaN if it is missing.
func (s Stats) get(name string) float64 {
	if v, ok := s[name]; ok {
		return v
	}
	return math.NaN()
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
