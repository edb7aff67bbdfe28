package charts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"aicplan/sink/base/stats"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
	"aicplan/stages/report/facets"
	"aicplan/stages/report/model"
)

// span is a stretch of time in which a worker ended one table's cases without a
// longer break.
type span struct {
	lane, table int
	from, to    float64
	rows        int
}

type timelineData struct {
	Kind   string   `json:"kind"`
	Lanes  []string `json:"lanes"`
	Tables []string `json:"tables"`
	// Spans are x, y, width, height, lane, table, rows and seconds.
	Spans [][8]float64 `json:"spans"`
}

// timeline draws what every worker measured when.
func timeline(id string, tables []*model.Table) *Chart {
	c := newClock(moments(tables))
	if c == nil {
		return nil
	}

	lanes, spans := spansOf(tables)
	if len(lanes) == 0 || len(lanes) > maxCells {
		return nil
	}

	p := newPlot(c.label(), "")
	p.X.Min, p.X.Max = -0.01*c.total, 1.01*c.total
	p.X.Tick.Marker = c
	p.Y.Min, p.Y.Max = -0.5, float64(len(lanes))-0.5
	p.Y.Tick.Marker = words{lanes, 1}
	p.Y.Tick.Length = 0
	bars := &bars{clock: c, spans: spans, lanes: len(lanes)}
	p.Add(grid{x: true}, cuts{c}, bars)
	chart := &Chart{ID: id, Title: "What every worker measured", W: width, H: 90 + 26*len(lanes)}
	chart.Body = render(p, chart.W, chart.H)
	d := timelineData{Kind: "timeline", Lanes: lanes, Spans: bars.boxes}

	rows := 0
	for i, t := range tables {
		d.Tables = append(d.Tables, t.Name)
		n := 0
		for _, s := range spans {
			if s.table == i {
				n += s.rows
			}
		}

		if n > 0 {
			chart.Legend = append(chart.Legend, Key{Name: t.Name, Class: fmt.Sprintf("c%d", i%(maxSeries+1)), Shape: 1,
				Note: textutil.Count(int64(n))})
		}

		rows += n
	}

	chart.Data = d
	chart.Caption = "A bar is a stretch without a longer break between cases; the gaps are restarts, other work, or nothing to do."
	chart.Alt = fmt.Sprintf("Timeline of %d workers and %d rows.", len(lanes), rows)

	return chart
}

// spansOf joins cases that follow each other on a worker.
func spansOf(tables []*model.Table) (lanes []string, out []span) {
	type event struct {
		at    float64
		table int
	}

	by := map[string][]event{}
	for i, t := range tables {
		f := t.Facets
		if f.Started == nil || t.Imported {
			continue
		}

		device := deviceOf(t, f)
		for r, at := range f.Started {
			if math.IsNaN(at) {
				continue
			}
			lane := device(r)
			by[lane] = append(by[lane], event{at, i})
		}
	}

	for lane := range by {
		lanes = append(lanes, lane)
	}

	slices.Sort(lanes)
	slices.Reverse(lanes) // the first at the top

	for li, lane := range lanes {
		list := by[lane]
		slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(a.at, b.at) })

		var gaps []float64
		for i := 1; i < len(list); i++ {
			gaps = append(gaps, list[i].at-list[i-1].at)
		}

		sorted := facets.Sorted(gaps)
		usual := stats.Rank(sorted, 0.5)

		pause := max(2, 5*stats.Rank(sorted, 0.95))
		for i, e := range list {
			// Rows carry when they began: they last until the next one does.
			end := e.at
			switch {
			case i+1 < len(list) && gaps[i] <= pause:
				end = list[i+1].at
			case usual > 0:
				end += min(usual, pause)
			}

			last := len(out) - 1
			if i > 0 && out[last].table == e.table && e.at-out[last].to <= pause {
				out[last].to, out[last].rows = end, out[last].rows+1
				continue
			}

			out = append(out, span{lane: li, table: e.table, from: e.at, to: end, rows: 1})
		}
	}

	return lanes, out
}

// deviceOf names the lane of a row: its device and worker.
func deviceOf(t *model.Table, f *facets.Facets) func(row int) string {
	uuid, err := table.Strings(t.Data.Table, "device_uuid")
	return func(row int) string {
		var parts []string
		if err == nil && uuid.Values[row] != "" {
			u := uuid.Values[row]
			if len(u) > 12 {
				u = u[:12]
			}
			parts = append(parts, u)
		}

		if len(f.Worker.Code) > 0 && f.Worker.Code[row] >= 0 {
			parts = append(parts, f.Worker.Names[f.Worker.Code[row]])
		}

		if len(parts) == 0 {
			return t.Device
		}

		return strings.Join(parts, " ")
	}
}

// bars draws spans as boxes.
type bars struct {
	clock *clock
	spans []span
	lanes int
	boxes [][8]float64
}

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	s := canvasOf(c)
	tx, ty := p.Transforms(&c)
	paths := map[int]*strings.Builder{}

	b.boxes = nil
	for _, sp := range b.spans {
		x0, y0 := s.At(vg.Point{X: tx(b.clock.on(sp.from)), Y: ty(float64(sp.lane) + 0.34)})
		x1, y1 := s.At(vg.Point{X: tx(b.clock.on(sp.to)), Y: ty(float64(sp.lane) - 0.34)})
		w, h := max(x1-x0, 1), y1-y0

		k := sp.table % (maxSeries + 1)
		if paths[k] == nil {
			paths[k] = &strings.Builder{}
		}

		fmt.Fprintf(paths[k], "M%s %sh%sv%sh-%sz", Num(x0), Num(y0), Num(w), Num(h), Num(w))
		b.boxes = append(b.boxes, [8]float64{short(x0), short(y0), short(w), short(h), float64(sp.lane),
			float64(sp.table), float64(sp.rows), short(sp.to - sp.from)})
	}

	for k := range maxSeries + 1 {
		if paths[k] != nil {
			s.Write(fmt.Sprintf(`<path class="b c%d" d="%s"/>`, k, paths[k].String()))
		}
	}
}
