package facets

import (
	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/stats"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
)

// Rates are the operations and bytes per second of each row: NaN if they are
// unknown.
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

// rates follow from what the rows state, or from the least that the op must do.
func (f *Facets) rates(rec arrow.Record, t *catalog.Table) {
	per := map[string]float64{"ms": 1e-3, "us": 1e-6, "s": 1}[f.Unit]
	if per == 0 || f.Latency == nil {
		return
	}

	flops, bytes := numbers(rec, "flops"), numbers(rec, "bytes")
	if t != nil && (flops == nil || bytes == nil) {
		if works, ok := rules.Works(rec, t); ok {
			if flops == nil {
				flops = make([]float64, len(works))
				for i, w := range works {
					flops[i] = w.Flops
				}
			}

			if bytes == nil {
				bytes = make([]float64, len(works))
				for i, w := range works {
					bytes[i] = w.Bytes
				}
			}
		}
	}

	f.Rates.Flops, f.Rates.Bytes = f.rate(flops, per), f.rate(bytes, per)
	if f.Rates.Flops != nil && f.Rates.Bytes != nil {
		f.Rates.Intensity = make([]float64, f.Rows)
		for i := range f.Rates.Intensity {
			f.Rates.Intensity[i] = f.Rates.Flops[i] / f.Rates.Bytes[i]
		}
	}
}

// rate returns an amount divided by the latency, whose unit is per seconds. It returns
// nil if no row has a rate.
func (f *Facets) rate(amount []float64, per float64) []float64 {
	if amount == nil {
		return nil
	}

	out := make([]float64, len(amount))
	known := false
	for i, a := range amount {
		out[i] = nan
		if a > 0 && f.Latency[i] > 0 {
			out[i], known = a/(f.Latency[i]*per), true
		}
	}

	if !known {
		return nil
	}

	return out
}
