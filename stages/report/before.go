package report

import (
	"encoding/json"
	"math"

	"aicplan/engine/checkpoint"
	"aicplan/sink/catalog"
	"aicplan/stages/collect"
	"aicplan/stages/report/model"
)

// Compare gives the tables of a report what their cases came to before. Tables
// that no collect measured have nothing.
func Compare(store *checkpoint.Store, tables []model.TableInput) error {
	for i := range tables {
		d := tables[i].Data
		if d == nil || d.Table == nil || d.Planned == nil || d.Info.Op == "" {
			continue
		}
		var err error
		if tables[i].Before, err = before(store, d.Info.Op, catalog.SchemaOf(d.Info.Perf).Primary().Name); err != nil {
			return err
		}
	}
	return nil
}

// before finds, of cases that were measured more than once, the try before the
// last one: what the metric was then, how noisy it was, and when. Cases with
// several rows are left out.
func before(store *checkpoint.Store, op, metric string) (map[string]model.Earlier, error) {
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
	// The two newest tries of each case are enough, and all that is kept.
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
		switch {
		case e.At >= p.last.At:
			p.last, p.earlier = e, p.last
		case e.At >= p.earlier.At:
			p.earlier = e
		}
		tried[x.CaseID] = p
	})
	if err != nil {
		return nil, err
	}
	out := map[string]model.Earlier{}
	for id, p := range tried {
		if p.earlier != (model.Earlier{}) {
			out[id] = p.earlier
		}
	}
	return out, nil
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
