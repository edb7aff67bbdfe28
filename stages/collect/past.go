package collect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
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

// Past is every try of some cases that the journals of a state folder have. It
// keeps where they are and not what they say: there may be millions.
type Past struct {
	store    *checkpoint.Store
	journals []journaled
	tries    []pastTry // in the order of time
	cases    map[string]int32
	byCase   []int32 // indices into tries, by case and in the order of time
	from     []int32 // where each case begins in byCase; one more at the end
}

// pastTry is one try.
type pastTry struct {
	nanos   int64
	place   checkpoint.Place
	journal int32
	of      int32 // in cases
}

// FindPast looks for every try of cases of an op in all journals.
func FindPast(store *checkpoint.Store, op string, ids []string) (*Past, error) {
	p := &Past{store: store, cases: make(map[string]int32, len(ids))}
	for _, id := range ids {
		if _, there := p.cases[id]; !there {
			p.cases[id] = int32(len(p.cases))
		}
	}
	err := eachEntry(store, op, func(in journaled, e checkpoint.Entry, at checkpoint.Place) error {
		of, wanted := p.cases[e.ID]
		if !wanted {
			return nil
		}
		nanos, err := nanosOf(e)
		if err != nil {
			return err
		}
		if n := len(p.journals); n == 0 || p.journals[n-1].Context != in.Context {
			p.journals = append(p.journals, in)
		}
		p.tries = append(p.tries, pastTry{nanos, at, int32(len(p.journals) - 1), of})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.tries, func(a, b pastTry) int { return cmp.Compare(a.nanos, b.nanos) })
	p.from = make([]int32, len(p.cases)+1)
	for _, t := range p.tries {
		p.from[t.of+1]++
	}
	for i := range len(p.cases) {
		p.from[i+1] += p.from[i]
	}
	p.byCase = make([]int32, len(p.tries))
	next := slices.Clone(p.from)
	for i, t := range p.tries {
		p.byCase[next[t.of]] = int32(i)
		next[t.of]++
	}
	return p, nil
}

// nanosOf is when an entry was measured.
func nanosOf(e checkpoint.Entry) (int64, error) {
	d, err := decodeEntry(e)
	if err != nil {
		return 0, err
	}
	return Nanos(d.At), nil
}

// All yields the tries of all cases in the order of time. It ends with the first
// error.
func (p *Past) All() iter.Seq2[Told, error] {
	return func(yield func(Told, error) bool) {
		for i := range p.tries {
			t, err := p.told(i)
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// Of is the tries of one case in the order of time.
func (p *Past) Of(id string) ([]Told, error) {
	n, ok := p.cases[id]
	if !ok {
		return nil, nil
	}
	var out []Told
	for _, i := range p.byCase[p.from[n]:p.from[n+1]] {
		t, err := p.told(int(i))
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// told reads a try.
func (p *Past) told(i int) (Told, error) {
	e, err := p.store.EntryAt(p.tries[i].place)
	if err != nil {
		return Told{}, err
	}
	d, err := decodeEntry(e)
	if err != nil {
		return Told{}, err
	}
	in := p.journals[p.tries[i].journal]
	t := Told{
		CaseID: e.ID, At: d.At, Rows: d.Rows, Failure: d.Failure, Framework: in.Framework, Version: in.Version, Device: in.Device,
		Worker: d.Worker, DeviceUUID: d.DeviceUUID, Conditions: in.conditions,
	}
	if d.Label != nil {
		t.Framework, t.Version, t.Device = d.Label.Framework, d.Label.Version, d.Label.Device
	}
	return t, nil
}

// journaled is the context of a journal.
type journaled struct {
	*checkpoint.Context
	conditions json.RawMessage
}

// eachEntry visits every entry that the journals of an op hold, journal by journal.
// The first error that visit returns ends it.
func eachEntry(store *checkpoint.Store, op string, visit func(journaled, checkpoint.Entry, checkpoint.Place) error) error {
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
		err := store.EachEntry(info, func(e checkpoint.Entry, at checkpoint.Place) {
			if bad == nil {
				bad = visit(in, e, at)
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
