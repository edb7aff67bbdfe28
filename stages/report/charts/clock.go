package charts

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

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

// newClock lays out the given moments.
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

	cur := segment{from: moments[0], to: moments[0]}
	for _, m := range moments[1:] {
		if m-cur.to > pause {
			c.segments = append(c.segments, cur)
			cur = segment{from: m, to: m}
		}
		cur.to = m
	}

	c.segments = append(c.segments, cur)
	length := 0.0
	for _, s := range c.segments {
		length += s.to - s.from
	}

	gap := max(length*0.03, 1)
	for i := range c.segments {
		c.segments[i].at = c.total
		c.total += c.segments[i].to - c.segments[i].from
		if i < len(c.segments)-1 {
			c.total += gap
		}
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

// Ticks implements plot.Ticker: the time of day, in UTC, at round intervals of
// every segment.
func (c *clock) Ticks(lo, hi float64) []plot.Tick {
	step := roundTime(c.total / 6)
	layout := "15:04:05"
	if step >= 60 {
		layout = "15:04"
	}

	var out []plot.Tick
	for _, s := range c.segments {
		first := math.Ceil(s.from/step) * step
		if first > s.to {
			first = s.from
		}

		for m := first; m <= s.to; m += step {
			at := s.at + m - s.from
			if len(out) > 0 && at-out[len(out)-1].Value < c.total/9 {
				continue
			}
			if at >= lo && at <= hi {
				out = append(out, plot.Tick{Value: at, Label: stamp(m).Format(layout)})
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
	text := "time of day (UTC), " + first
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

// cuts draws the pauses that were cut.
type cuts struct{ c *clock }

// Plot implements plot.Plotter.
func (k cuts) Plot(c draw.Canvas, p *plot.Plot) {
	tx, _ := p.Transforms(&c)
	for i, s := range k.c.segments[:len(k.c.segments)-1] {
		middle := tx((s.at + s.to - s.from + k.c.segments[i+1].at) / 2)
		c.StrokeLine2(draw.LineStyle{Color: axisInk, Width: 1, Dashes: []vg.Length{2, 3}}, middle, c.Min.Y, middle, c.Max.Y)
	}
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
