package charts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"aicplan/sink/base/stats"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
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
	Spans [][]float64 `json:"spans"`
}

// timeline draws what every worker measured when.
func timeline(tables []*model.Table) *Chart {
	c := newClock(moments(tables))
	if c == nil {
		return nil
	}

	lanes, spans := spansOf(tables)
	if len(lanes) == 0 || len(lanes) > maxCells {
		return nil
	}

	chart := &Chart{ID: "run-timeline", Title: "What every worker measured", W: width, H: 90 + 26*len(lanes),
		Caption: "A bar is a stretch without a longer break between cases; the gaps are restarts, other work, or nothing " +
			"to do."}
	f := newFrame(chart.W, chart.H,
		axis{label: c.label(), lo: -0.01 * c.total, hi: 1.01 * c.total, ticks: c.ticks, grid: true},
		axis{lo: -0.5, hi: float64(len(lanes)) - 0.5, ticks: nameTicks(lanes, 1)})
	c.cuts(f)

	d := timelineData{Kind: "timeline", Lanes: lanes}
	var paths [maxSeries + 1]string
	rows := make([]int, len(tables))
	all := 0
	for _, s := range spans {
		x, y := f.px(c.on(s.from)), f.py(float64(s.lane)+0.34)
		w, h := max(f.px(c.on(s.to))-x, 1), f.py(float64(s.lane)-0.34)-y
		paths[s.table%len(paths)] += box(x, y, w, h)
		rows[s.table] += s.rows
		all += s.rows
		d.Spans = append(d.Spans, shortAll(x, y, w, h, float64(s.lane), float64(s.table), float64(s.rows), s.to-s.from))
	}

	for k, path := range paths {
		f.path(fmt.Sprintf("b c%d", k), "", path)
	}

	for i, t := range tables {
		d.Tables = append(d.Tables, t.Name)
		if rows[i] > 0 {
			chart.Legend = append(chart.Legend, Key{Name: t.Name, Class: fmt.Sprintf("c%d", i%len(paths)), Shape: 1,
				Note: textutil.Count(rows[i])})
		}
	}

	chart.Body, chart.Data = f.String(), d
	chart.Alt = fmt.Sprintf("Timeline of %d workers and %d rows.", len(lanes), all)
	return chart
}

// spansOf joins cases that follow each other on a worker. The first lane is the last one by name, because
// lane 0 is drawn at the bottom.
func spansOf(tables []*model.Table) (lanes []string, out []span) {
	type event struct {
		at    float64
		table int
	}

	by := map[string][]event{}
	for i, t := range tables {
		if t.Imported {
			continue
		}

		lane := laneOf(t)
		for r, at := range t.Facets.Started {
			if !math.IsNaN(at) {
				name := lane(r)
				by[name] = append(by[name], event{at, i})
			}
		}
	}

	for lane := range by {
		lanes = append(lanes, lane)
	}

	slices.Sort(lanes)
	slices.Reverse(lanes)

	for li, lane := range lanes {
		list := by[lane]
		slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(a.at, b.at) })

		var gaps []float64
		for i := 1; i < len(list); i++ {
			gaps = append(gaps, list[i].at-list[i-1].at)
		}

		sorted := model.Sorted(gaps)
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

// laneOf returns the lane of a row: its device and worker.
func laneOf(t *model.Table) func(row int) string {
	uuid, err := table.Strings(t.Data.Table, "device_uuid")
	worker := t.Facets.Worker
	return func(row int) string {
		var parts []string
		if err == nil && uuid.Values[row] != "" {
			u := uuid.Values[row]
			parts = append(parts, u[:min(len(u), 12)])
		}

		if len(worker.Code) > 0 && worker.Code[row] >= 0 {
			parts = append(parts, worker.Names[worker.Code[row]])
		}

		return cmp.Or(strings.Join(parts, " "), t.Device)
	}
}
