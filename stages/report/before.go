package report

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/stages/collect"
	"aicplan/stages/report/model"
)

// Since is the run whose rows those of a report are held against; without an id it
// is whatever measured a case the time before.
type Since struct {
	Run string
	End time.Time // what was measured until then counts
}

// Compare gives the tables of a report what their cases came to before. Tables
// that no collect measured have nothing.
func Compare(store *checkpoint.Store, tables []model.TableInput, since Since) error {
	for i := range tables {
		d := tables[i].Data
		if d == nil || d.Table == nil || d.Planned == nil || d.Info.Op == "" || !table.Has(d.Table, "case_id") {
			continue
		}
		ids, err := table.Strings(d.Table, "case_id")
		if err != nil {
			return err
		}
		if tables[i].Before, err = before(store, d.Info.Op, catalog.SchemaOf(d.Info.Perf).Primary().Name, ids.Values, since.End); err != nil {
			return err
		}
		tables[i].Since = since.Run
	}
	return nil
}

// tried are the newest try of a case and the one that it is held against. Millions
// of them are held, so they have no pointers.
type tried struct {
	journaled     int32 // tries in the journals, as far as they were counted
	last, earlier try
}

type try struct {
	known        bool
	value, noise float64
	at           int64 // UnixNano; the smallest where nobody knows
}

// add takes one try more, in whatever order they come: the newest is the last one,
// and the newest of the others that had ended by end the one before.
func (c *tried) add(e try, end int64) {
	if !c.last.known || e.at >= c.last.at {
		c.last, e = e, c.last
	}
	if e.known && e.at <= end && (!c.earlier.known || e.at >= c.earlier.at) {
		c.earlier = e
	}
}

// before finds, of cases that were measured more than once, the try before the
// last one: what the metric was then, how noisy it was, and when. With until it is
// the last try that had ended by then, of cases that were measured again since.
// Cases with several rows are left out. The answer has one for each of ids, whose
// value is NaN where there is none; it is nil where none has any.
func before(store *checkpoint.Store, op, metric string, ids []string, until time.Time) ([]model.Earlier, error) {
	index := make(map[[16]byte]int32, len(ids))
	cases := make([]tried, 0, len(ids))
	for _, id := range ids {
		key := short(id)
		if _, ok := index[key]; !ok {
			index[key] = int32(len(cases))
			cases = append(cases, tried{})
		}
	}
	// What was tried once has no time before, and most have been.
	again, err := countTries(store, op, index, cases)
	if err != nil || !again {
		return nil, err
	}
	end := int64(math.MaxInt64)
	if !until.IsZero() {
		end = until.UnixNano()
	}
	err = collect.EachNumber(store, op, metric, func(id string) bool {
		i, ok := index[short(id)]
		return ok && cases[i].journaled > 1
	}, func(n collect.Number) {
		e := try{known: true, value: n.Value, noise: math.NaN(), at: collect.Nanos(n.At)}
		if n.HasNoise {
			e.noise = n.Noise
		}
		cases[index[short(n.CaseID)]].add(e, end)
	})
	if err != nil {
		return nil, err
	}
	out := make([]model.Earlier, len(ids))
	for row, id := range ids {
		c := &cases[index[short(id)]]
		out[row] = model.Earlier{Value: math.NaN()}
		if c.earlier.known && (until.IsZero() || c.last.at > end) {
			out[row] = model.Earlier{Value: c.earlier.value, Noise: c.earlier.noise, At: c.earlier.at}
		}
	}
	return out, nil
}

// countTries counts the measurements of the cases; false where none has two.
func countTries(store *checkpoint.Store, op string, index map[[16]byte]int32, cases []tried) (bool, error) {
	contexts, err := store.Contexts(op)
	if err != nil {
		return false, err
	}
	again := false
	for _, info := range contexts {
		if err := store.EachEntry(info, func(e checkpoint.Entry, _ checkpoint.Place) {
			if i, ok := index[short(e.ID)]; ok && e.Kind == checkpoint.Measured {
				cases[i].journaled++
				again = again || cases[i].journaled > 1
			}
		}); err != nil {
			return false, err
		}
	}
	return again, nil
}

// short is a case's id as 16 bytes, which those of grids are.
func short(id string) (key [16]byte) {
	if len(id) == 32 {
		if _, err := hex.Decode(key[:], []byte(id)); err == nil {
			return key
		}
	}
	sum := sha256.Sum256([]byte(id))
	copy(key[:], sum[:])
	return key
}
