package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// mostWorst is how many rows of each sort a report lists.
const mostWorst = 5

// WorstRow is a row that a reader should look at, with what may explain it.
type WorstRow struct {
	// Why is the reason: far from the speed of light, or noisy.
	Why     string  `json:"why"`
	Case    string  `json:"case"`
	Latency float64 `json:"latency"`
	// Known only if the row contains it.
	Low       *float64 `json:"p10,omitempty"`
	High      *float64 `json:"p90,omitempty"`
	Noise     *float64 `json:"noise,omitempty"`
	Light     *float64 `json:"speed_of_light,omitempty"`
	Rate      string   `json:"rate,omitempty"`
	Clock     *float64 `json:"clock_mhz,omitempty"`
	Throttled *bool    `json:"throttled,omitempty"`
}

// worst lists the noisiest rows, and those that are farthest from the speed of
// light; rows of a few microseconds are left out of the latter, because the launch
// is most of their time.
func (t *Table) worst() {
	f := t.Facets
	pick := func(why string, value []float64, most bool, fit func(int) bool) {
		var rows []int
		for i, v := range value {
			if finite(v) && finite(f.Latency[i]) && (fit == nil || fit(i)) {
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
			t.Worst = append(t.Worst, t.worstRow(why, i))
		}
	}

	if f.Latency == nil {
		return
	}

	if f.Light != nil {
		launch := map[string]float64{"ms": 0.02, "us": 20}[f.Unit]
		pick("far from the speed of light", f.Light, false, func(i int) bool { return f.Latency[i] >= launch })
	}

	if f.Noise != nil {
		pick("noisy", f.Noise, true, nil)
	}
}

func (t *Table) worstRow(why string, i int) WorstRow {
	f := t.Facets
	known := func(v []float64) *float64 {
		if v == nil || !finite(v[i]) {
			return nil
		}
		return &v[i]
	}

	w := WorstRow{Why: why, Latency: f.Latency[i], Low: known(f.Low), High: known(f.High), Noise: known(f.Noise),
		Light: known(f.Light), Clock: known(f.Clock)}
	var parts []string
	for _, p := range f.Params {
		if p.Name != "kernel_source" && !(p.Numeric && math.IsNaN(p.Value[i])) {
			parts = append(parts, p.Name+"="+p.Cell(i))
		}
	}

	w.Case = strings.Join(parts, " ")
	if r := t.mainRate(); r != nil {
		if v := known(r.Values); v != nil {
			w.Rate = RateText(*v, r.Unit)
		}
	}

	if f.Held != nil {
		w.Throttled = f.Held[i]
	}

	return w
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
