// Package rows holds the rows of measured cases in their two forms: as entries of the journal, and as the
// columns of an Arrow table. It also checks the rows that workers return.
package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// Entry is the journal record of a case, or of one point of a case that sweeps: its rows or its failure, and how
// it was tried. Failures are stored as the worker reported them and are classified when the ledger is written, so
// that an improved rule applies without measuring again.
type Entry struct {
	Rows       []worker.Row    `json:"rows,omitempty"`
	Failure    *worker.Failure `json:"failure,omitempty"`
	Attempts   int             `json:"attempts"`
	Worker     string          `json:"worker,omitempty"`
	DeviceUUID string          `json:"device_uuid,omitempty"`
	// At is the time of the measurement in RFC 3339, or "" if it is unknown.
	At string `json:"at,omitempty"`
	// Seconds is the wall time of the whole case. Points is the number of its points.
	Seconds float64 `json:"seconds,omitempty"`
	Points  int     `json:"points,omitempty"`
	// First is set for the first case of a process, which often includes one-time work such as imports
	// and compilation.
	First bool `json:"first,omitempty"`
	// Attachments are files of the case in the object store.
	Attachments []stage.Attachment `json:"attachments,omitempty"`
}

// Label contains the values of the columns with these names.
type Label struct{ Framework, Version, Device string }

// Kind returns the kind of the journal entry.
func (e *Entry) Kind() checkpoint.Kind {
	if e.Failure != nil {
		return checkpoint.Failed
	}
	return checkpoint.Measured
}

// Encode returns the payload of the journal entry.
func (e *Entry) Encode() ([]byte, error) { return json.Marshal(e) }

// Decode decodes what Encode writes and rejects everything else.
func Decode(e checkpoint.Entry) (*Entry, error) {
	d := json.NewDecoder(bytes.NewReader(e.Payload))
	d.UseNumber()
	out := new(Entry)
	err := d.Decode(out)
	if err == nil && d.InputOffset() != int64(len(e.Payload)) {
		err = errors.New("something follows its end")
	}

	switch {
	case err != nil:
	case e.Kind == checkpoint.Measured &&
		(len(out.Rows) == 0 || slices.ContainsFunc(out.Rows, func(r worker.Row) bool { return r == nil })):
		err = errors.New("it has no rows")
	case e.Kind == checkpoint.Measured && out.Failure != nil:
		err = errors.New("it has rows and a failure")
	case e.Kind == checkpoint.Failed && out.Failure == nil:
		err = errors.New("it has no failure")
	case e.Kind != checkpoint.Measured && e.Kind != checkpoint.Failed:
		err = fmt.Errorf("%q is not the kind of a result", e.Kind)
	}

	if err != nil {
		return nil, unreadable(e.ID, err)
	}

	return out, nil
}

// unreadable adds the case and the next step to an error about a journal entry.
func unreadable(id string, err error) error {
	return fmt.Errorf(
		"the journal's entry of case %s cannot be read: %w; aicplan ckpt verify names its file, and apply --replace "+
			"measures the case again",
		id,
		err,
	)
}
