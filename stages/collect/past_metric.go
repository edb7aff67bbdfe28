package collect

import (
	"encoding/json"
	"strconv"

	"aicplan/engine/checkpoint"
)

// Number is what the journals say of a metric at one try of a case that gave one row.
type Number struct {
	CaseID string
	At     string // RFC 3339; empty where nobody knows
	Value  float64
	Noise  float64 // rel_stdev; see HasNoise
	// HasNoise is false where the scatter is not known.
	HasNoise bool
}

// EachNumber calls each for the measured tries of cases of an op for which want is
// true, journal by journal. It builds no rows: journals may have millions of tries.
func EachNumber(store *checkpoint.Store, op, metric string, want func(caseID string) bool, each func(Number)) error {
	return eachEntry(store, op, func(_ journaled, e checkpoint.Entry, _ checkpoint.Place) error {
		if e.Kind != checkpoint.Measured || !want(e.ID) {
			return nil
		}
		n, ok, err := numberIn(e, metric)
		if err == nil && ok {
			n.CaseID = e.ID
			each(n)
		}
		return err
	})
}

// numberIn reads the metric of an entry with one row; false where it has none.
func numberIn(e checkpoint.Entry, metric string) (Number, bool, error) {
	sc := scanner{b: e.Payload}
	var n Number
	var tail entryTail
	has := false
	if sc.word(`{"rows":[`) && sc.object(func(name []byte, tag byte, v []byte) {
		if tag != aNumber {
			return
		}
		switch string(name) {
		case metric:
			f, err := strconv.ParseFloat(string(v), 64)
			n.Value, has = f, err == nil
		case "rel_stdev":
			f, err := strconv.ParseFloat(string(v), 64)
			n.Noise, n.HasNoise = f, err == nil
		}
	}) && sc.word(`]`) && tail.read(&sc) {
		n.At = string(tail.at)
		return n, has, nil
	}
	// Several rows, or what encode writes of rare values.
	d, err := decodeEntry(e)
	if err != nil || len(d.Rows) != 1 {
		return Number{}, false, err
	}
	n = Number{At: d.At}
	n.Value, has = floatOf(d.Rows[0][metric])
	n.Noise, n.HasNoise = floatOf(d.Rows[0]["rel_stdev"])
	return n, has, nil
}

func floatOf(v any) (float64, bool) {
	text, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := text.Float64()
	return f, err == nil
}
