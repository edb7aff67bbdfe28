package model

import (
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/stats"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
)

// Rates are the operations and bytes per second of each row, NaN if they are unknown.
type Rates struct {
	// Flops in FLOP/s, Bytes in bytes/s; nil if no row has one.
	Flops, Bytes []float64
	// Intensity is operations over bytes; nil without both.
	Intensity []float64
}

// Moves reports whether most rows move more bytes than they execute operations.
func (r Rates) Moves() bool {
	sorted := Sorted(r.Intensity)
	return len(sorted) > 0 && stats.Rank(sorted, 0.5) < 1
}

// rates computes the rates from the columns flops and bytes. Without the columns it uses the least that the
// op must compute and move.
func (f *Facets) rates(rec arrow.Record, t *catalog.Table) {
	per := map[string]float64{"ms": 1e-3, "us": 1e-6, "s": 1}[f.Unit]
	if per == 0 || f.Latency == nil {
		return
	}

	var works []rules.Work
	if t != nil {
		works, _ = rules.Works(rec, t)
	}

	rate := func(column string, least func(rules.Work) float64) []float64 {
		amount := numbers(rec, column)
		if amount == nil {
			for _, w := range works {
				amount = append(amount, least(w))
			}
		}

		out := make([]float64, len(amount))
		for i, a := range amount {
			out[i] = math.NaN()
			if a > 0 && f.Latency[i] > 0 {
				out[i] = a / (f.Latency[i] * per)
			}
		}

		return orNil(out)
	}

	f.Rates.Flops = rate("flops", func(w rules.Work) float64 { return w.Flops })
	f.Rates.Bytes = rate("bytes", func(w rules.Work) float64 { return w.Bytes })
	if f.Rates.Flops != nil && f.Rates.Bytes != nil {
		f.Rates.Intensity = make([]float64, f.Rows)
		for i := range f.Rates.Intensity {
			f.Rates.Intensity[i] = f.Rates.Flops[i] / f.Rates.Bytes[i]
		}
	}
}
