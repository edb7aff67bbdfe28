package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"aicplan/stages/gate/results"
)

// mostWorst is how many rows of each sort a report lists.
const mostWorst = 5

// worst lists the noisiest rows, and those that are farthest from the speed of
// light, with what may explain them; rows of a few microseconds are left out of the latter, because the launch
// is most of their time. It returns nil if there are none.
func (t *Table) worst() *results.Table {
	f := t.Facets
	type pick struct {
		why string
		row int
	}
	var picks []pick
	list := func(why string, value []float64, most bool, least float64) {
		var rows []int
		for i, v := range value {
			if finite(v) && finite(f.Latency[i]) && f.Latency[i] >= least {
				rows = append(rows, i)
			}
		}

		slices.SortStableFunc(rows, func(a, b int) int {
			if most {
				a, b = b, a
			}
			return cmp.Compare(value[a], value[b])
		})

		for _, i := range rows[:min(len(rows), mostWorst)] {
			picks = append(picks, pick{why, i})
		}
	}

	if f.Latency != nil {
		list("low speed of light", f.Light, false, map[string]float64{"ms": 0.02, "us": 20}[f.Unit])
		list("noisy", f.Noise, true, math.Inf(-1))
	}
	if len(picks) == 0 {
		return nil
	}

	out := &results.Table{Texts: 2, Rows: make([][]any, len(picks))}
	out.Add("why", func(i int) any { return picks[i].why })
	out.Add("row", func(i int) any {
		var parts []string
		for _, p := range f.Params {
			if row := picks[i].row; p.Name != "kernel_source" && !(p.Numeric && math.IsNaN(p.Value[row])) {
				parts = append(parts, p.Name+"="+p.Cell(row))
			}
		}
		return strings.Join(parts, " ")
	})

	number := func(head string, v []float64, times float64) {
		if v != nil {
			out.Add(head, func(i int) any {
				if x, ok := at(v, picks[i].row).(float64); ok {
					return x * times
				}
				return nil
			})
		}
	}
	number(f.Metric.Name+" ("+f.Unit+")", f.Latency, 1)
	number("p10", f.Low, 1)
	number("p90", f.High, 1)
	number("noise (%)", f.Noise, 100)
	if r := t.mainRate(); r != nil {
		out.Add("rate", func(i int) any {
			if v, ok := at(r.Values, picks[i].row).(float64); ok {
				return RateText(v, r.Unit)
			}
			return nil
		})
	}
	number("speed of light (%)", f.Light, 100)
	number("SM clock (MHz)", f.Clock, 1)
	if f.Held != nil {
		out.Add("throttled", func(i int) any {
			if held := f.Held[picks[i].row]; held != nil {
				return map[bool]string{true: "yes", false: "no"}[*held]
			}
			return nil
		})
	}
	return out
}

// Rate is one rate of a table's rows.
type Rate struct {
	// Name is compute or memory; Unit FLOP/s or B/s.
	Name string `json:"name"`
	Unit string `json:"unit"`
	Spread
	Values []float64 `json:"-"`
}

// rates sums the rates of the rows up.
func (t *Table) rates() {
	for _, r := range []Rate{{Name: "compute", Unit: "FLOP/s", Values: t.Facets.Rates.Flops},
		{Name: "memory", Unit: "B/s", Values: t.Facets.Rates.Bytes}} {
		if s := spread(r.Values); s != nil {
			r.Spread = *s
			t.Rates = append(t.Rates, r)
		}
	}
}

// mainRate is the one that a reader asks for first: operations, but bytes of ops
// that move more of them than they compute.
func (t *Table) mainRate() *Rate {
	switch {
	case len(t.Rates) == 0:
		return nil
	case len(t.Rates) > 1 && t.Facets.Rates.Moves():
		return &t.Rates[1]
	}
	return &t.Rates[0]
}

// RateText writes a rate with its prefix: 1.23 TFLOP/s.
func RateText(v float64, unit string) string {
	for _, p := range []struct {
		size   float64
		prefix string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= p.size {
			return Number(v/p.size) + " " + p.prefix + unit
		}
	}

	return Number(v) + " " + unit
}

// RateOf is the middle of the table's main rate, "" without one.
func (t *Table) RateOf() string {
	if r := t.mainRate(); r != nil {
		return RateText(r.P50, r.Unit)
	}
	return ""
}

// RateLine summarises the rates of the rows. It is "" if there are none.
func (t *Table) RateLine() string {
	var parts []string
	for _, r := range t.Rates {
		parts = append(parts, fmt.Sprintf("%s (median; most %s)", RateText(r.P50, r.Unit), RateText(r.Max, r.Unit)))
	}
	return strings.Join(parts, ", ")
}
