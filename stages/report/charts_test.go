package report

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"aicplan/stages/report/charts"
	"aicplan/stages/report/model"
)

// drawn returns the charts of the sample by id.
func drawn(r *model.Report) map[string]*charts.Chart {
	out := map[string]*charts.Chart{}
	for _, g := range charts.Draw(r) {
		for _, c := range g.Charts {
			out[c.ID] = c
		}
	}
	return out
}

// scriptData returns the data of a chart as the page's script reads it.
func scriptData[T any](t *testing.T, c *charts.Chart) T {
	t.Helper()
	raw, err := json.Marshal(c.Data)
	if err != nil {
		t.Fatal(err)
	}

	var out T
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

var moves = regexp.MustCompile(`M(-?[\d.]+) (-?[\d.]+)`)

// TestEveryChartIsDrawnInsideItsBox: every chart is there, well-formed, inside of its box, and the same
// each time.
func TestEveryChartIsDrawnInsideItsBox(t *testing.T) {
	all := drawn(build(t, sampleInput(t, 3000)))
	for _, id := range []string{"run-noise", "run-clock", "run-power", "t0-latency", "t0-light",
		"t0-ratio", "t0-cover", "t1-latency", "t1-light", "t1-cover", "t2-latency"} {
		if all[id] == nil {
			t.Errorf("no chart %s", id)
		}
	}

	again := drawn(build(t, sampleInput(t, 3000)))
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
		r := build(t, sampleInput(t, rows))
		c := drawn(r)["t0-latency"]
		d := scriptData[struct {
			Columns []struct{ Name string } `json:"cols"`
			Series  []struct {
				N    []int   `json:"n"`
				Cols [][]any `json:"c"`
			}
		}](t, c)

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

// TestCoverageAddsUpToTheTable: the matrix adds up to the table.
func TestCoverageAddsUpToTheTable(t *testing.T) {
	r := build(t, sampleInput(t, 400))
	tab := r.Tables[1]
	d := scriptData[struct{ N [][4]int }](t, drawn(r)["t1-cover"])

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
}

func BenchmarkDraw(b *testing.B) {
	r := build(b, sampleInput(b, 100000))
	for b.Loop() {
		charts.Draw(r)
	}
}
