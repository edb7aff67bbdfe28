package model

import (
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/stats"
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
func (f *Facets) rates(rec arrow.Record, works []rules.Work) {
	per := map[string]float64{"ms": 1e-3, "us": 1e-6, "s": 1}[f.Unit]
	if per == 0 || f.Latency == nil {
		return
	}

	rate := func(column string, least []float64) []float64 {
		amount := numbers(rec, column)
		if amount == nil {
			amount = least
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

	var bytes []float64
	for _, w := range works {
		bytes = append(bytes, w.Bytes)
	}

	f.Rates.Flops, f.Rates.Bytes = rate("flops", operations(works)), rate("bytes", bytes)
	if f.Rates.Flops != nil && f.Rates.Bytes != nil {
		f.Rates.Intensity = make([]float64, f.Rows)
		for i := range f.Rates.Intensity {
			f.Rates.Intensity[i] = f.Rates.Flops[i] / f.Rates.Bytes[i]
		}
	}
}
