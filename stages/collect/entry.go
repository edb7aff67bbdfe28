package collect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// entry is the journal record of a unit: its rows or its failure, and how it was tried. Failures are
// stored as the worker reported them and are classified when the ledger is written, so that an improved
// rule applies without measuring again.
type entry struct {
	Rows       []worker.Row    `json:"rows,omitempty"`
	Failure    *worker.Failure `json:"failure,omitempty"`
	Attempts   int             `json:"attempts"`
	Worker     string          `json:"worker,omitempty"`
	DeviceUUID string          `json:"device_uuid,omitempty"`
	At         string          `json:"at,omitempty"`
	// Seconds is the wall time of the whole case. Points is the number of units in the case.
	Seconds float64 `json:"seconds,omitempty"`
	Points  int     `json:"points,omitempty"`
	// First is set for the first case of a process, which often includes one-time work such as imports
	// and compilation.
	First bool `json:"first,omitempty"`
	// Attachments are files of the case in the object store.
	Attachments []stage.Attachment `json:"attachments,omitempty"`
	// Label is set if the journal's context does not fix one of its fields.
	Label *label `json:"label,omitempty"`
}

// label contains the values of the columns with these names.
type label struct {
	Framework string `json:"framework"`
	Version   string `json:"version"`
	Device    string `json:"device"`
}

func (e *entry) encode() ([]byte, error) {
	if len(e.Rows) == 0 || e.Failure != nil {
		return json.Marshal(e)
	}

	// Encoded by hand because this runs for every case, and reflection over maps can take longer than
	// the measurement.
	b := append(make([]byte, 0, 320), `{"rows":[`...)
	for i, row := range e.Rows {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendRow(b, row); err != nil {
			return nil, err
		}
	}

	rest := *e
	rest.Rows = nil
	if e.Label != nil || len(e.Attachments) > 0 {
		tail, err := json.Marshal(&rest)
		if err != nil {
			return nil, err
		}
		return append(append(b, "],"...), tail[1:]...), nil
	}

	b = strconv.AppendInt(append(b, `],"attempts":`...), int64(e.Attempts), 10)
	for _, f := range []struct{ name, text string }{{"worker", e.Worker}, {"device_uuid", e.DeviceUUID}, {"at", e.At}} {
		if f.text != "" {
			b = appendText(append(append(append(b, `,"`...), f.name...), `":`...), f.text)
		}
	}

	if e.Seconds != 0 {
		b = strconv.AppendFloat(append(b, `,"seconds":`...), e.Seconds, 'g', -1, 64)
	}
	if e.Points != 0 {
		b = strconv.AppendInt(append(b, `,"points":`...), int64(e.Points), 10)
	}
	if e.First {
		b = append(b, `,"first":true`...)
	}

	return append(b, '}'), nil
}

// appendRow appends a row as a JSON object with sorted names.
func appendRow(b []byte, row worker.Row) ([]byte, error) {
	var space [24]string
	names := space[:0]
	for name := range row {
		names = append(names, name)
	}

	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}

		b = append(appendText(b, name), ':')
		switch v := row[name].(type) {
		case json.Number:
			b = append(b, v...)

		case string:
			b = appendText(b, v)

		case bool:
			b = strconv.AppendBool(b, v)

		default:
			raw, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			b = append(b, raw...)
		}
	}

	return append(b, '}'), nil
}

// appendText appends a string as JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			raw, err := json.Marshal(s)
			if err != nil {
				panic("collect: a string is no JSON: " + err.Error())
			}
			return append(b, raw...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// decodeEntry decodes what encode writes and rejects everything else. Opening, applying and verifying a
// journal all use it, so they accept the same entries.
func decodeEntry(e checkpoint.Entry) (*entry, error) {
	d := json.NewDecoder(bytes.NewReader(e.Payload))
	d.UseNumber()
	out := new(entry)
	err := d.Decode(out)
	if err == nil && d.InputOffset() != int64(len(e.Payload)) {
		err = errors.New("something follows its end")
	}

	switch {
	case err != nil:
	case e.Kind == checkpoint.Measured && (len(out.Rows) == 0 || slices.ContainsFunc(out.Rows, func(r worker.Row) bool { return r == nil })):
		err = errors.New("it has no rows")
	case e.Kind == checkpoint.Measured && out.Failure != nil:
		err = errors.New("it has rows and a failure")
	case e.Kind == checkpoint.Failed && out.Failure == nil:
		err = errors.New("it does not say how the case failed")
	case e.Kind != checkpoint.Measured && e.Kind != checkpoint.Failed:
		err = fmt.Errorf("%s is no kind of result", e.Kind)
	}

	if err != nil {
		return nil, fmt.Errorf("the journal's entry of case %s cannot be read: %w; aicplan ckpt verify says in which file, and the next apply measures the case again",
			e.ID, err)
	}

	return out, nil
}

// text formats a parameter for people. Strings have no quotes.
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
		// Text is slow, and it formats large integers with an exponent.
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
	raw := j.cases.ParamsJSON(int(u.task))
	if s := j.sweepOf(int(u.task)); s != nil {
		return mergeObjects(raw, s.raw[u.point])
	}
	return raw
}

// mergeObjects joins two JSON objects with disjoint keys.
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
