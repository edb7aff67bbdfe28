package telemetry

import (
	"math"
	"slices"
)

// series is what one source said of one device: a row a scrape.
type series struct {
	gpu     GPU
	times   []int64 // Unix nanoseconds, in order
	columns map[string][]float64
}

func newSeries(g GPU) *series { return &series{gpu: g, columns: map[string][]float64{}} }

// add appends a row; metrics that a page lacks are NaN in it.
func (s *series) add(at int64, values map[string]float64) {
	if n := len(s.times); n > 0 && at <= s.times[n-1] {
		at = s.times[n-1] + 1 // the clock was set back: order counts
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

// trim drops the rows before at, but the last of them.
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

// inside returns the rows of [from, to] as a range of indices.
func (s *series) inside(from, to int64) (lo, hi int) {
	lo, _ = slices.BinarySearch(s.times, from)
	hi, found := slices.BinarySearch(s.times, to)
	if found {
		hi++
	}
	return lo, max(lo, hi)
}

// around is the part of the series that a window needs: its rows, and on both
// sides enough to know what each metric was before and became.
func (s *series) around(from, to int64) *series {
	lo, hi := s.inside(from, to)
	lo, hi = max(0, lo-4), min(len(s.times), hi+4)
	out := &series{gpu: s.gpu, times: s.times[lo:hi], columns: make(map[string][]float64, len(s.columns))}
	for name, col := range s.columns {
		out.columns[name] = col[lo:hi]
	}
	return out
}
