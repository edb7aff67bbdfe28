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
	// First is true of the first case of a process, which often pays for what is
	// imported, compiled or loaded once.
	First bool `json:"first,omitempty"`
	// Attachments are files of the case, kept as objects.
	Attachments []stage.Attachment `json:"attachments,omitempty"`
	// Label is set where the journal's context leaves one of its fields open.
	Label *label `json:"label,omitempty"`
}

// label is what the columns of the same names hold.
type label struct {
	Framework string `json:"framework"`
	Version   string `json:"version"`
	Device    string `json:"device"`
}

func (e *entry) encode() ([]byte, error) {
	if len(e.Rows) == 0 || e.Failure != nil {
		return json.Marshal(e)
	}
	// By hand: this is done for every case, and reflection over maps takes longer
	// than measuring some.
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

// appendRow writes a row as JSON, by name.
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

// appendText writes a string as JSON.
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

// decodeEntry reads what encode writes, and refuses everything else: what is read
// when a journal is opened, applied and verified is one and the same.
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
		return nil, fmt.Errorf("the journal's entry of case %s cannot be read: %w; aicplan ckpt verify says in which file, and the next apply measures the case again", e.ID, err)
	}
	return out, nil
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
	raw := j.cases.ParamsJSON(int(u.task))
	if s := j.sweepOf(int(u.task)); s != nil {
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
