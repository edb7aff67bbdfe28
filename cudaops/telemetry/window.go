package telemetry

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/measure"
)

// GPUWindow is the summary of one device in a window.
type GPUWindow struct {
	GPU     GPU
	Source  string
	Metrics []Stats

	// Samples is the number of samples inside the window.
	Samples int

	// Refresh is the median time between two changes of a reading, or 0 if no reading changed twice. Stale
	// is true if no reading changed for more than a fifth of the window despite regular scrapes, so that
	// the statistics are based on few values.
	Refresh time.Duration
	Stale   bool

	// Gap is the longest time in the window without a sample.
	Gap time.Duration

	// EnergyByPower is the integral of the power readings in joules, or null if they are not frequent and fresh enough.
	EnergyByPower *float64

	order int // of the source
}

// Get returns the statistics of a metric, or nil if the device does not report it.
func (g *GPUWindow) Get(name string) *Stats {
	for i := range g.Metrics {
		if g.Metrics[i].Metric.Name == name {
			return &g.Metrics[i]
		}
	}
	return nil
}

// Window is the summary of all devices between two moments.
type Window struct {
	From, To time.Time
	GPUs     []*GPUWindow
	Lost     int // lost scrapes of sources that responded at least once or were named by the user
	Blanks   int // number of missing values
	Sources  []Status

	// Silent are devices that responded before, whose sources did not respond inside the window.
	Silent []GPU

	// Incomplete are the reasons why statistics of devices are unknown.
	Incomplete []string
}

// Window summarizes the time between from and to, inclusive. Call Mark at both times, so that counters are
// exact.
func (r *Recorder) Window(from, to time.Time) *Window {
	w := &Window{From: from, To: to, Sources: r.Sources()}
	lo, hi := from.UnixNano(), to.UnixNano()

	r.mu.Lock()
	defer r.mu.Unlock()
	for _, st := range r.states {
		if st.ok > 0 || st.byUser {
			for _, e := range st.events {
				if e.at >= lo && e.at <= hi {
					w.Lost += e.lost
					w.Blanks += e.blanks
				}
			}
		}
	}

	responded := map[int]bool{}
	for _, by := range r.series {
		for i, s := range by {
			a, b := s.inside(lo, hi)
			responded[i] = responded[i] || b > a
		}
	}

	for _, by := range r.series {
		i, s := best(by, lo, hi)
		if s != nil {
			g := r.device(s, r.states[i].src.Name(), lo, hi)
			g.order = i
			w.GPUs = append(w.GPUs, g)
			continue
		}

		sources := slices.Sorted(maps.Keys(by))
		if !slices.ContainsFunc(sources, func(i int) bool { return responded[i] }) {
			gpu := by[sources[0]].gpu
			w.Silent = append(w.Silent, gpu)
			w.incomplete(gpu, r.states[sources[0]].src.Name(), "no sample in the window")
		}
	}

	slices.SortFunc(w.GPUs, func(a, b *GPUWindow) int {
		return cmp.Or(a.order-b.order, strings.Compare(a.key(), b.key()))
	})

	for _, g := range w.GPUs {
		switch {
		case g.Stale:
			w.incomplete(g.GPU, g.Source, "the readings changed too seldom")
		case g.Gap > r.allowedGap(lo, hi):
			w.incomplete(g.GPU, g.Source, fmt.Sprintf("no sample for %v of a window of %v",
				g.Gap.Round(time.Millisecond), to.Sub(from).Round(time.Millisecond)))
		}
	}

	slices.Sort(w.Incomplete)
	return w
}

// key returns a text by which the devices of a source are sorted. Indexes are numbers.
func (g *GPUWindow) key() string {
	return fmt.Sprintf("%s\x00%9s\x00%s\x00%s", g.GPU.Hostname, g.GPU.Index, g.GPU.InstanceID, g.GPU.UUID)
}

func (w *Window) incomplete(gpu GPU, source, reason string) {
	w.Incomplete = append(w.Incomplete, fmt.Sprintf("GPU %s of %s: %s", gpu.Index, source, reason))
}

// best returns the source of a device with the most samples inside the window. On a tie, the first source
// wins.
func best(by map[int]*series, lo, hi int64) (source int, s *series) {
	most := 0
	for _, i := range slices.Sorted(maps.Keys(by)) {
		a, b := by[i].inside(lo, hi)
		if b-a > most {
			source, s, most = i, by[i], b-a
		}
	}
	return source, s
}

func (r *Recorder) device(s *series, source string, lo, hi int64) *GPUWindow {
	g := &GPUWindow{GPU: s.gpu, Source: source}
	a, b := s.inside(lo, hi)
	g.Samples = b - a
	g.Refresh, g.Stale = freshness(s, lo, hi)
	g.Gap = longestGap(s.times, nil, lo, hi)

	for _, m := range r.set {
		times, values := s.readings(m.Name)
		st := summarize(m, times, values, lo, hi)
		if st.Count == 0 {
			continue
		}

		// Means over time need frequent and fresh readings of the metric. Increases need them near both ends.
		if g.Stale || longestGap(times, nil, lo, hi) > r.allowedGap(lo, hi) {
			st.TimeAvg = nil
		} else if m.Name == Power {
			g.EnergyByPower = new(integral(times, values, lo, hi))
		}
		if m.Name == Energy {
			times, values = changes(times, values)
		}
		if g.Stale || longestGap(times, values, lo, hi) > r.allowedGap(lo, hi) {
			st.Delta = nil
		}
		g.Metrics = append(g.Metrics, st)
	}

	return g
}

// allowedGap returns how long a window may have no reading.
func (r *Recorder) allowedGap(lo, hi int64) time.Duration {
	return max(maxGap*r.interval, time.Duration(hi-lo)/4)
}

// maxGap is the number of intervals without a reading that a window may contain, if it is not short.
const maxGap = 3

// freshness determines how often readings changed inside the window.
func freshness(s *series, lo, hi int64) (refresh time.Duration, stale bool) {
	a, b := s.inside(lo, hi)
	if b-a < 2 {
		return 0, false
	}

	var changes []int64
	for i := a + 1; i < b; i++ {
		for _, col := range s.columns {
			if differ(col[i], col[i-1]) {
				changes = append(changes, s.times[i])
				break
			}
		}
	}

	var gaps []float64
	for i := 1; i < len(changes); i++ {
		gaps = append(gaps, float64(changes[i]-changes[i-1]))
	}
	if len(gaps) > 0 {
		refresh = time.Duration(measure.Median(gaps))
	}

	// At least five samples are needed for a verdict.
	return refresh, b-a >= 5 && longestGap(changes, nil, lo, hi) > time.Duration(hi-lo)/5 && len(changes) < 5
}

// differ reports whether two values are different. Two missing values are equal.
func differ(a, b float64) bool { return a != b && !(math.IsNaN(a) && math.IsNaN(b)) }

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
