package report

import (
	"encoding/json"
	"math"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/sink/catalog"
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
		if d == nil || d.Table == nil || d.Planned == nil || d.Info.Op == "" {
			continue
		}
		var err error
		if tables[i].Before, err = before(store, d.Info.Op, catalog.SchemaOf(d.Info.Perf).Primary().Name, since.End); err != nil {
			return err
		}
		tables[i].Since = since.Run
	}
	return nil
}

// before finds, of cases that were measured more than once, the try before the
// last one: what the metric was then, how noisy it was, and when. With until it is
// the last try that had ended by then, of cases that were measured again since.
// Cases with several rows are left out.
func before(store *checkpoint.Store, op, metric string, until time.Time) (map[string]model.Earlier, error) {
	contexts, err := store.Contexts(op)
	if err != nil {
		return nil, err
	}
	tries := map[string]int{}
	for _, info := range contexts {
		if err := store.EachEntry(info, func(e checkpoint.Entry) {
			if e.Kind == checkpoint.Measured {
				tries[e.ID]++
			}
		}); err != nil {
			return nil, err
		}
	}
	again := map[string]bool{}
	for id, n := range tries {
		if n > 1 {
			again[id] = true
		}
	}
	if len(again) == 0 {
		return nil, nil
	}
	// The newest try of each case and the one that it is held against are all that
	// is kept.
	type pair struct{ last, earlier model.Earlier }
	tried := make(map[string]pair, len(again))
	err = collect.EachPast(store, op, again, func(x collect.Told) {
		if len(x.Rows) != 1 {
			return
		}
		v, ok := numberOf(x.Rows[0][metric])
		if !ok {
			return
		}
		e := model.Earlier{Value: v, Noise: math.NaN(), At: x.At}
		if noise, ok := numberOf(x.Rows[0]["rel_stdev"]); ok {
			e.Noise = noise
		}
		p := tried[x.CaseID]
		if e.At >= p.last.At {
			p.last, e = e, p.last
		}
		if e != (model.Earlier{}) && e.At >= p.earlier.At && !late(e.At, until) {
			p.earlier = e
		}
		tried[x.CaseID] = p
	})
	if err != nil {
		return nil, err
	}
	out := map[string]model.Earlier{}
	for id, p := range tried {
		if p.earlier != (model.Earlier{}) && (until.IsZero() || late(p.last.At, until)) {
			out[id] = p.earlier
		}
	}
	return out, nil
}

// late says whether something was measured after until, if that is given. What
// does not say when it was measured is not known to be before.
func late(at string, until time.Time) bool {
	if until.IsZero() {
		return false
	}
	t, err := time.Parse(time.RFC3339Nano, at)
	return err != nil || t.After(until)
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}
