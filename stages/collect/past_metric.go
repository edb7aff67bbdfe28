package collect

import (
	"encoding/json"

	"aicplan/engine/checkpoint"
)

// Number is the value of a metric in one measurement of a case with a single row.
type Number struct {
	CaseID string
	At     string // RFC 3339; empty if unknown
	Value  float64
	Noise  float64 // rel_stdev; see HasNoise
	// HasNoise is false if the row has no rel_stdev.
	HasNoise bool
}

// EachNumber calls each for every measurement, in all journals of an op, of the cases
// for which want returns true. Cases with several rows are skipped.
func EachNumber(store *checkpoint.Store, op, metric string, want func(caseID string) bool, each func(Number)) error {
	return eachEntry(store, op, func(_ journaled, e checkpoint.Entry, _ checkpoint.Place) error {
		if e.Kind != checkpoint.Measured || !want(e.ID) {
			return nil
		}
		d, err := decodeEntry(e)
		if err != nil || len(d.Rows) != 1 {
			return err
		}

		n := Number{CaseID: e.ID, At: d.At}
		var known bool
		if n.Value, known = floatOf(d.Rows[0][metric]); !known {
			return nil
		}
		n.Noise, n.HasNoise = floatOf(d.Rows[0]["rel_stdev"])
		each(n)
		return nil
	})
}

func floatOf(v any) (float64, bool) {
	text, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := text.Float64()
	return f, err == nil
}
