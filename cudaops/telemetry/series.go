package telemetry

import (
	"math"
	"slices"
	"time"
)

// series contains the samples of one device from one source, one row per scrape.
type series struct {
	gpu     GPU
	times   []int64 // Unix nanoseconds, ascending
	columns map[string][]float64
}

// add appends a row. Metrics missing from a page are NaN.
func (s *series) add(at int64, values map[string]float64) {
	if n := len(s.times); n > 0 && at <= s.times[n-1] {
		at = s.times[n-1] + 1 // the clock was set back; times must be ascending
	}

	s.times = append(s.times, at)
	for name, v := range values {
		col := s.columns[name]
		for len(col) < len(s.times)-1 {
			col = append(col, math.NaN())
		}
		s.columns[name] = append(col, v)
	}

	for name, col := range s.columns {
		for len(col) < len(s.times) {
			col = append(col, math.NaN())
		}
		s.columns[name] = col
	}
}

// trim drops the rows before at, except the last of them.
func (s *series) trim(at int64) {
	n := 0
	for n < len(s.times)-1 && s.times[n+1] < at {
		n++
	}

	if n == 0 {
		return
	}

	s.times = append(s.times[:0], s.times[n:]...)
	for name, col := range s.columns {
		s.columns[name] = append(col[:0], col[n:]...)
	}
}

// inside returns the range of indices of the rows in [from, to].
func (s *series) inside(from, to int64) (lo, hi int) {
	lo, _ = slices.BinarySearch(s.times, from)
	hi, found := slices.BinarySearch(s.times, to)
	if found {
		hi++
	}
	return lo, max(lo, hi)
}

// readings returns the values of a metric with their times, without the rows that lack it.
func (s *series) readings(name string) (times []int64, values []float64) {
	all := s.columns[name]
	if all != nil && !slices.ContainsFunc(all, math.IsNaN) {
		return s.times, all
	}
	for i, v := range all {
		if !math.IsNaN(v) {
			times, values = append(times, s.times[i]), append(values, v)
		}
	}
	return times, values
}

// longestGap returns the longest time between lo and hi without one of the times. Times before and after the window
// count. If the times are those of a counter's values, the time between two of them inside the window is no gap, unless
// the counter was reset.
func longestGap(times []int64, counter []float64, lo, hi int64) time.Duration {
	longest, before := int64(0), lo
	for i, t := range times {
		known := counter != nil && i > 0 && times[i-1] >= lo && t <= hi && counter[i] >= counter[i-1]
		if t > lo && !known {
			longest = max(longest, t-before)
		}
		if before = t; t >= hi {
			return time.Duration(longest)
		}
	}
	return time.Duration(max(longest, hi-max(before, lo)))
}
