package charts

import (
	"fmt"
	"math"
	"slices"
	"time"

	"aicplan/stages/report/model"
)

// clock maps moments to a time axis on which long pauses are cut short: data of
// two nights stays readable in one chart.
type clock struct {
	segments []segment
	total    float64 // seconds on the axis
}

// segment is a stretch of time without a long pause.
type segment struct {
	from, to float64 // seconds since 1970
	at       float64 // its start on the axis
}

// newClock lays out the given moments. It returns nil without any.
func newClock(moments []float64) *clock {
	moments = slices.Clone(moments)
	slices.Sort(moments)

	if len(moments) == 0 {
		return nil
	}

	busy := 0.0
	for i := 1; i < len(moments); i++ {
		if gap := moments[i] - moments[i-1]; gap < 60 {
			busy += gap
		}
	}

	// A pause is cut when it is long by itself and long compared with the work.
	pause := max(60, busy/4)
	c := &clock{}

	for i, m := range moments {
		if i == 0 || m-moments[i-1] > pause {
			c.segments = append(c.segments, segment{from: m})
		}
		c.segments[len(c.segments)-1].to = m
	}

	length := 0.0
	for _, s := range c.segments {
		length += s.to - s.from
	}

	for i := range c.segments {
		if i > 0 {
			c.total += max(length*0.03, 1)
		}
		c.segments[i].at = c.total
		c.total += c.segments[i].to - c.segments[i].from
	}

	c.total = max(c.total, 1)
	return c
}

// on places a moment on the axis.
func (c *clock) on(m float64) float64 {
	for _, s := range c.segments {
		if m <= s.to {
			return s.at + max(0, m-s.from)
		}
	}
	last := c.segments[len(c.segments)-1]
	return last.at + m - last.from
}

// ticks is a ticker: the time of day, in UTC, at round intervals of every segment.
func (c *clock) ticks(lo, hi float64) []tick {
	step := roundTime(c.total / 6)
	layout := "15:04:05"
	if step >= 60 {
		layout = "15:04"
	}

	var out []tick
	for _, s := range c.segments {
		first := math.Ceil(s.from/step) * step
		if first > s.to {
			first = s.from
		}

		for m := first; m <= s.to; m += step {
			at := s.at + m - s.from
			if len(out) > 0 && at-out[len(out)-1].at < c.total/9 {
				continue
			}
			if at >= lo && at <= hi {
				out = append(out, tick{at, stamp(m).Format(layout)})
			}
		}
	}

	return out
}

func stamp(seconds float64) time.Time {
	return time.Unix(0, int64(seconds*1e9)).UTC()
}

func roundTime(v float64) float64 {
	for _, s := range []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200} {
		if v <= s {
			return s
		}
	}
	return 86400
}

// label returns the days that the axis covers.
func (c *clock) label() string {
	first, last := stamp(c.segments[0].from).Format(time.DateOnly),
		stamp(c.segments[len(c.segments)-1].to).Format(time.DateOnly)
	text := "UTC, " + first
	if last != first {
		text += " to " + last
	}

	if n := len(c.segments) - 1; n == 1 {
		text += "; one pause cut"
	} else if n > 1 {
		text += fmt.Sprintf("; %d pauses cut", n)
	}

	return text
}

// moments gathers when rows of the tables were measured.
func moments(tables []*model.Table) []float64 {
	var out []float64
	for _, t := range tables {
		for _, m := range t.Facets.Started {
			if !math.IsNaN(m) {
				out = append(out, m)
			}
		}
	}

	return out
}
