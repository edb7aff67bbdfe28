package collect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
)

// Told is what the journals say of one try of a case, whether it still counts or
// was replaced by a later one.
type Told struct {
	CaseID string `json:"case_id"`
	// At is when it was measured, RFC 3339; empty where nobody knows.
	At string `json:"at,omitempty"`
	// Rows of the case, of several where it gives more than one; none where it
	// failed.
	Rows    []worker.Row    `json:"rows,omitempty"`
	Failure *worker.Failure `json:"failure,omitempty"`

	Framework  string `json:"framework,omitempty"`
	Version    string `json:"version,omitempty"`
	Device     string `json:"device,omitempty"`
	Worker     string `json:"worker,omitempty"`
	DeviceUUID string `json:"device_uuid,omitempty"`
	// Conditions are all that the measurement depended on other than the case.
	Conditions json.RawMessage `json:"conditions"`
}

// Past finds every try of cases of an op in all journals of the state folder, by
// case and in the order of time.
func Past(store *checkpoint.Store, op string, ids map[string]bool) ([]Told, error) {
	var out []Told
	err := eachEntry(store, op, func(in journaled, e checkpoint.Entry) error {
		if !ids[e.ID] {
			return nil
		}
		d, err := decodeEntry(e)
		if err != nil {
			return err
		}
		t := Told{
			CaseID: e.ID, At: d.At, Rows: d.Rows, Failure: d.Failure, Framework: in.Framework, Version: in.Version, Device: in.Device,
			Worker: d.Worker, DeviceUUID: d.DeviceUUID, Conditions: in.conditions,
		}
		if d.Label != nil {
			t.Framework, t.Version, t.Device = d.Label.Framework, d.Label.Version, d.Label.Device
		}
		out = append(out, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b Told) int { return cmp.Compare(Nanos(a.At), Nanos(b.At)) })
	return out, nil
}

// journaled is the context of a journal.
type journaled struct {
	*checkpoint.Context
	conditions json.RawMessage
}

// eachEntry visits every entry that the journals of an op hold, journal by journal.
// The first error that visit returns ends it.
func eachEntry(store *checkpoint.Store, op string, visit func(journaled, checkpoint.Entry) error) error {
	contexts, err := store.Contexts(op)
	if err != nil {
		return err
	}
	for _, info := range contexts {
		in := journaled{&checkpoint.Context{}, info.JSON}
		if err := json.Unmarshal(info.JSON, in.Context); err != nil {
			return fmt.Errorf("journal of %s: %w", op, err)
		}
		var bad error
		err := store.EachEntry(info, func(e checkpoint.Entry) {
			if bad == nil {
				bad = visit(in, e)
			}
		})
		if err = cmp.Or(err, bad); err != nil {
			return err
		}
	}
	return nil
}

// Nanos is when something was measured, as time.UnixNano. What does not say when is
// taken for older than everything that does. Times are not in order as text: 05.12Z
// is behind 05.123Z there.
func Nanos(at string) int64 {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return math.MinInt64
	}
	return t.UnixNano()
}

// Changed says in words what is other in the conditions of b than in those of a;
// none where they are the same.
func Changed(a, b json.RawMessage) []string {
	var out []string
	for _, line := range checkpoint.Explain(a, b) {
		out = append(out, inWords(line))
	}
	return out
}
