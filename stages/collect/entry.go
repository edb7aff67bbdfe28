package collect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
)

// entry is what the journal keeps of a unit: how it was tried, and its rows or
// its failure. Failures are kept as they were reported; their class is worked
// out when the ledger is written, so that a better rule needs no new
// measurement.
type entry struct {
	Rows       []worker.Row    `json:"rows,omitempty"`
	Failure    *worker.Failure `json:"failure,omitempty"`
	Attempts   int             `json:"attempts"`
	Worker     string          `json:"worker,omitempty"`
	DeviceUUID string          `json:"device_uuid,omitempty"`
	At         string          `json:"at,omitempty"`
	// Seconds is the wall time of the whole case; Points how many units it had.
	Seconds float64 `json:"seconds,omitempty"`
	Points  int     `json:"points,omitempty"`
	// Source is the file of the op's function as it was, for a plan to say that
	// it has changed since; see runtimes.Source.
	Source string `json:"source,omitempty"`
	// Label is set where the journal's context leaves one of its fields open.
	Label *label `json:"label,omitempty"`
}

// label is what the columns of the same names hold.
type label struct {
	Framework string `json:"framework"`
	Version   string `json:"version"`
	Device    string `json:"device"`
}

func (e *entry) encode() ([]byte, error) { return json.Marshal(e) }

func decodeEntry(payload []byte) (*entry, error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	e := new(entry)
	if err := d.Decode(e); err != nil {
		return nil, fmt.Errorf("an entry of the journal cannot be read: %w", err)
	}
	return e, nil
}

// ValidEntry says whether an entry of a journal begins as encode writes it: a
// cheap look that keeps what is no case from passing for one.
func ValidEntry(e checkpoint.Entry) bool {
	switch e.Kind {
	case checkpoint.Measured:
		return bytes.HasPrefix(e.Payload, []byte(`{"rows":[{`))
	case checkpoint.Failed:
		return bytes.HasPrefix(e.Payload, []byte(`{"failure":{`))
	}
	return false
}

// text writes a parameter as people do: strings without quotes.
func text(v cty.Value) string {
	switch {
	case v.IsNull():
		return "null"
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Bool:
		if v.True() {
			return "true"
		}
		return "false"
	case v.Type() == cty.Number:
		// Text is slow, and writes a large integer with an exponent.
		f := v.AsBigFloat()
		if i, acc := f.Int64(); acc == big.Exact {
			return strconv.FormatInt(i, 10)
		}
		return f.Text('g', -1)
	}
	return v.GoString()
}

// params returns the parameters of a unit as one JSON object.
func (j *job) params(u *unit) []byte {
	raw := j.cases.ParamsJSON(u.task)
	if s := j.sweepOf(u.task); s != nil {
		return mergeObjects(raw, s.raw[u.point])
	}
	return raw
}

// mergeObjects joins two JSON objects whose keys differ.
func mergeObjects(a, b []byte) []byte {
	if len(a) <= 2 {
		return b
	}
	if len(b) <= 2 {
		return a
	}
	out := append(bytes.Clone(a[:len(a)-1]), ',')
	return append(out, b[1:]...)
}
