package aiperf

import (
	"math"
	"slices"

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
	n := float64(len(values))
	s := Stats{Min: values[0], Max: values[len(values)-1], Count: len(values)}

	for _, v := range values {
		s.Sum += v
	}

	s.Avg = s.Sum / n
	sq := 0.0
	for _, v := range values {
		sq += (v - s.Avg) * (v - s.Avg)
	}

	s.Std = math.Sqrt(sq / n)
	for _, p := range s.percentiles() {
		*p.to = Percentile(values, p.q)
	}

	return s, true
}

type percentile struct {
	q  float64
	to *float64
}

func (s *Stats) percentiles() []percentile {
	return []percentile{{1, &s.P1}, {5, &s.P5}, {10, &s.P10}, {25, &s.P25}, {50, &s.P50}, {75, &s.P75},
		{90, &s.P90}, {95, &s.P95}, {99, &s.P99}}
}

// Percentile returns the q-th percentile (0 to 100) of sorted values, interpolated linearly between the
// closest ranks. The result is bit-identical to numpy's default.
func Percentile(sorted []float64, q float64) float64 {
	return stats.Interpolated(sorted, q/100)
}
