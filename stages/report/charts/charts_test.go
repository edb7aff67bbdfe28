package charts

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aicplan/stages/report/model"
	"aicplan/stages/report/reporttest"
)

func report(t testing.TB, rows int) *model.Report {
	t.Helper()
	in, err := reporttest.Input(rows)
	if err != nil {
		t.Fatal(err)
	}

	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func byID(groups []Group) map[string]*Chart {
	out := map[string]*Chart{}
	for _, g := range groups {
		for _, c := range g.Charts {
			out[c.ID] = c
		}
	}
	return out
}

var moves = regexp.MustCompile(`M(-?[\d.]+) (-?[\d.]+)`)

// TestEveryChartIsDrawnInsideItsBox: every chart is there, well-formed, inside of its box, and the same
// each time.
func TestEveryChartIsDrawnInsideItsBox(t *testing.T) {
	all := byID(Draw(report(t, 3000)))
	for _, id := range []string{"run-timeline", "run-noise", "run-clock", "run-power", "t0-latency", "t0-light",
		"t0-ratio", "t0-heat", "t0-cover", "t1-latency", "t1-light", "t1-heat", "t1-cover", "t2-latency", "t2-heat"} {
		if all[id] == nil {
			t.Errorf("no chart %s", id)
		}
	}

	again := byID(Draw(report(t, 3000)))
	for id, c := range all {
		d := xml.NewDecoder(strings.NewReader("<svg>" + c.Body + "</svg>"))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
		}

		for _, m := range moves.FindAllStringSubmatch(c.Body, -1) {
			x, _ := strconv.ParseFloat(m[1], 64)
			y, _ := strconv.ParseFloat(m[2], 64)
			if !(x >= -1) || !(y >= -1) || !(x <= float64(c.W)+1) || !(y <= float64(c.H)+1) {
				t.Fatalf("%s: a mark at %v, %v in a box of %d by %d", id, x, y, c.W, c.H)
			}
		}

		if c.Alt == "" || c.Title == "" {
			t.Errorf("%s has no words", id)
		}

		if again[id] == nil || again[id].Body != c.Body {
			t.Errorf("%s is drawn differently the second time", id)
		}

		if _, err := json.Marshal(c.Data); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestMarksRepresentAllRows: thinned out or not, the marks of a chart represent all its rows,
// and there are as many values as marks in the path.
func TestMarksRepresentAllRows(t *testing.T) {
	for _, rows := range []int{300, 20000} {
		r := report(t, rows)
		c := byID(Draw(r))["t0-latency"]
		d := c.Data.(pointsData)

		total := 0
		for s, series := range d.Series {
			path := regexp.MustCompile(`data-s="` + strconv.Itoa(s) + `" d="([^"]*)"`).FindStringSubmatch(c.Body)
			marks := strings.Count(path[1], "M")
			for i, col := range series.Cols {
				if len(col) != marks {
					t.Errorf("%d rows, series %d: %d values of %s for %d marks", rows, s, len(col), d.Columns[i].Name, marks)
				}
			}

			if series.N == nil {
				total += marks
			}

			for _, n := range series.N {
				total += n
			}

			if marks > 3500 {
				t.Errorf("%d marks in one series", marks)
			}
		}

		if total != r.Tables[0].Rows {
			t.Errorf("the marks stand for %d rows, want %d", total, r.Tables[0].Rows)
		}
	}
}

// TestHeat compares the cells of a heat map with the rows.
func TestHeatMapShowsItsRows(t *testing.T) {
	r := report(t, 3000)
	tab := r.Tables[0]

	d := byID(Draw(r))["t0-heat"].Data.(heatData)
	if d.X != "k" || d.Y != "n" || len(d.Slices) < 3 || len(d.Slices) > maxSlices {
		t.Fatalf("axes %s and %s, %d slices", d.X, d.Y, len(d.Slices))
	}

	seen := 0
	p := tab.Facets.Params // gemm_dtype, m, n, k
	for row := range tab.Rows {
		for _, s := range d.Slices {
			if s.Name != p[0].Text[row]+", m "+whole(p[1].Value[row]) {
				continue
			}

			x, y := index(d.Xs, whole(p[3].Value[row])), index(d.Ys, whole(p[2].Value[row]))
			at := y*len(d.Xs) + x
			if got, want := s.V[at].(float64), short(100*tab.Facets.Light[row]); got != want {
				t.Fatalf("%s k=%s n=%s: %v, want %v", s.Name, d.Xs[x], d.Ys[y], got, want)
			}

			if want := min(int(tab.Facets.Light[row]*heatSteps), heatSteps-1); s.K[at] != want {
				t.Fatalf("shade %d, want %d", s.K[at], want)
			}

			seen++
		}
	}

	if seen < len(d.Slices)*9 {
		t.Errorf("only %d rows are in the heat map", seen)
	}
}

func index(list []string, s string) int {
	for i, v := range list {
		if v == s {
			return i
		}
	}
	return -1
}

// TestCoverageAddsUpToTheTable: the matrix adds up to the table.
func TestCoverageAddsUpToTheTable(t *testing.T) {
	r := report(t, 400)
	tab := r.Tables[1]
	d := byID(Draw(r))["t1-cover"].Data.(coverData)

	var sum [4]int
	for _, n := range d.N {
		for i := range sum {
			sum[i] += n[i]
		}
	}

	if sum != [4]int{tab.Planned, tab.Covered, tab.Failed, tab.Skipped} {
		t.Errorf("the cells add up to %v, the table has %d planned, %d covered, %d failed, %d skipped", sum,
			tab.Planned, tab.Covered, tab.Failed, tab.Skipped)
	}

	for n, want := range map[[4]int]int{{0, 0, 0, 0}: -1, {3, 3, 0, 0}: coverFull, {3, 1, 2, 0}: coverPart,
		{3, 0, 1, 2}: coverFail, {3, 0, 0, 3}: coverSkip, {3, 0, 0, 0}: coverNone} {
		if got := coverClass(n); got != want {
			t.Errorf("class of %v is %d, want %d", n, got, want)
		}
	}
}

// TestTimelineHasEveryRowOnce: the bars hold every row of every measured table once.
func TestTimelineHasEveryRowOnce(t *testing.T) {
	r := report(t, 2000)
	d := byID(Draw(r))["run-timeline"].Data.(timelineData)

	rows := 0
	for _, s := range d.Spans {
		rows += int(s[6])
		if !(s[7] >= 0) || !(s[2] > 0) {
			t.Errorf("span %v", s)
		}
	}

	if want := r.Tables[0].Rows + r.Tables[1].Rows; rows != want {
		t.Errorf("the bars hold %d rows, want %d", rows, want)
	}

	if len(d.Lanes) != 4 {
		t.Errorf("lanes %v", d.Lanes)
	}
}

// TestClockCutsLongPauses: long pauses are cut, order is kept, nothing overlaps.
func TestClockCutsLongPauses(t *testing.T) {
	night := float64(time.Date(2026, 1, 2, 22, 0, 0, 0, time.UTC).Unix())
	c := newClock([]float64{night, night + 10, night + 20, night + 36000, night + 36010})
	if len(c.segments) != 2 || !(c.total <= 60) {
		t.Fatalf("%+v", c)
	}

	if !strings.Contains(c.label(), "2026-01-02 to 2026-01-03; one pause cut") {
		t.Errorf("label %q", c.label())
	}

	for _, tick := range c.ticks(0, c.total) {
		if tick.label == "" || !(tick.at >= 0 && tick.at <= c.total) {
			t.Errorf("tick %+v", tick)
		}
	}

	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 40).Draw(t, "moments")
		c := newClock(list)

		sorted := model.Sorted(list)
		for i := 1; i < len(sorted); i++ {
			if a, b := c.on(sorted[i-1]), c.on(sorted[i]); !(a <= b+1e-6) {
				t.Fatalf("%v comes at %v, %v at %v", sorted[i-1], a, sorted[i], b)
			}
		}

		if end := c.on(sorted[len(sorted)-1]); !(end <= c.total+1e-6) {
			t.Fatalf("the last moment is at %v of %v", end, c.total)
		}
	})
}

// TestLogTicksAreLabelledAndRise: labelled ticks exist, are in range and rise, whatever the range.
func TestLogTicksAreLabelledAndRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := math.Pow(10, rapid.Float64Range(-9, 12).Draw(t, "lo"))
		hi := lo * math.Pow(10, rapid.Float64Range(0.7, 12).Draw(t, "decades"))
		labels := 0

		last := 0.0
		for _, k := range logTicks(lo, hi) {
			if !(k.at >= lo*0.999 && k.at <= hi*1.001) || !(k.at > last) {
				t.Fatalf("tick %v after %v in %v..%v", k.at, last, lo, hi)
			}
			last = k.at
			if k.label != "" {
				labels++
			}
		}

		if labels < 1 || labels > 14 {
			t.Fatalf("%d labels in %v..%v", labels, lo, hi)
		}
	})

	for v, want := range map[float64]string{0: "0", 1500: "1.5k", 1e6: "1M", 2.5e9: "2.5G", 0.01: "0.01", 1e-7: "1e-07"} {
		if got := SI(v); got != want {
			t.Errorf("SI(%v) = %q, want %q", v, got, want)
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	r := report(b, 100000)
	for b.Loop() {
		Draw(r)
	}
}

// TestTicksOfExtremeRangesAreFew: ranges that differ in the last bit only, or have no end, have a
// few marks, and no endless row of them.
func TestTicksOfExtremeRangesAreFew(t *testing.T) {
	t.Parallel()
	four := math.Nextafter(4, 0)
	for _, r := range [][2]float64{{four, 4}, {4, 4}, {1e15, 1e15 + 0.25}, {-4, -four}, {0, 5e-324}, {0, 1e308},
		{-1e308, 1e308}, {1, math.Inf(1)}, {0, 1}} {
		for i, ticks := range []ticker{linearTicks(6, SI), logTicks} {
			if n := len(ticks(r[0], r[1])); n > 3000 {
				t.Errorf("ticker %d has %d marks from %v to %v", i, n, r[0], r[1])
			}
		}
		if lo, hi := widen(r[0], r[1], false); !(lo < hi) && !math.IsInf(hi, 1) {
			t.Errorf("%v to %v is widened to %v to %v", r[0], r[1], lo, hi)
		}
	}
}
