package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/stats"
	"aicplan/sink/table"
	"aicplan/stages/collect"
	"aicplan/stages/dedupe"
)

// deadline limits one case. It is generous because a sample is small.
const deadline = 10 * time.Minute

// repeat is a case with its sampled rows.
type repeat struct {
	caseID string
	params json.RawMessage
	sweep  json.RawMessage
	points []point
	again  bool // it is tried for the second time
	rows   []worker.Row
	fail   *worker.Failure
}

// point is one sampled row.
type point struct {
	row    int            // of the dataset
	kernel string         // its kernel_source
	at     map[string]any // the point of the sweep, nil without one
}

// tasksOf returns the cases of the sampled rows.
func (c *Config) tasksOf(m *collect.Measurement, ds *stage.Dataset, rows []int) ([]*repeat, error) {
	ids, err := table.Strings(ds.Table, "case_id")
	if err != nil {
		return nil, err
	}

	kernels, _ := table.Strings(ds.Table, "kernel_source")
	type place struct{ task, point int }

	where := map[string]place{}
	for i := range m.Cases.Len() {
		for p, id := range m.Cases.PointIDs(i) {
			where[id] = place{i, p}
		}
	}

	byTask := map[int]*repeat{}
	used := map[int]map[int]json.RawMessage{} // points by task
	var order []*repeat

	lost := 0
	for _, row := range rows {
		at, ok := where[ids.Values[row]]
		if !ok {
			lost++
			continue
		}

		j := byTask[at.task]
		if j == nil {
			j = &repeat{caseID: m.Cases.ID(at.task), params: m.Cases.ParamsJSON(at.task)}
			byTask[at.task], used[at.task] = j, map[int]json.RawMessage{}
			order = append(order, j)
		}

		pt := point{row: row}
		if kernels != nil {
			pt.kernel = kernels.Values[row]
		}

		if m.Cases.SweepColumns() != nil {
			var all []json.RawMessage
			if err := json.Unmarshal(m.Cases.Sweep(at.task).JSON(), &all); err != nil {
				return nil, fmt.Errorf("sweep of case %s: %w", j.caseID, err)
			}
			if err := json.Unmarshal(all[at.point], &pt.at); err != nil {
				return nil, fmt.Errorf("sweep of case %s: %w", j.caseID, err)
			}
			used[at.task][at.point] = all[at.point]
		}

		j.points = append(j.points, pt)
	}

	if len(order) == 0 {
		return nil, fmt.Errorf("none of the %d sampled rows is a case of %s as it is planned now; collect again",
			lost, c.collect.Address)
	}

	for task, points := range used {
		if len(points) == 0 {
			continue
		}

		var want []json.RawMessage
		for p := range m.Cases.Sweep(task).Len() {
			if raw, ok := points[p]; ok {
				want = append(want, raw)
			}
		}

		if byTask[task].sweep, err = json.Marshal(want); err != nil {
			return nil, err
		}
	}

	return order, nil
}

// queue passes the cases to the pool. A case is repeated once if its worker died.
type queue struct {
	m     *collect.Measurement
	rc    *stage.RunContext
	tasks []*repeat
	done  []*repeat
	total int
}

func (s *queue) stopping() bool {
	select {
	case <-s.rc.Stop:
		return true
	default:
		return false
	}
}

// Pending implements worker.CaseSource.
func (s *queue) Pending() int {
	if s.stopping() {
		return 0
	}
	return len(s.tasks)
}

// Next implements worker.CaseSource.
func (s *queue) Next() *worker.Task {
	if s.Pending() == 0 {
		return nil
	}

	j := s.tasks[0]
	s.tasks = s.tasks[1:]

	attempt := 1
	if j.again {
		attempt = 2
	}

	return &worker.Task{
		Case:     worker.Case{ID: j.caseID, Op: s.m.Op, Params: j.params, Sweep: j.sweep, Attempt: attempt},
		Deadline: deadline, Fresh: j.again, Data: j,
	}
}

// Done implements worker.CaseSource.
func (s *queue) Done(o worker.Outcome) {
	j := o.Task.Data.(*repeat)
	if o.Failure != nil && (o.Cause == worker.CauseDied || o.Failure.Class == worker.ClassTransient) && !j.again {
		j.again = true
		s.tasks = append(s.tasks, j)
		return
	}

	j.rows, j.fail = o.Rows, o.Failure
	s.done = append(s.done, j)

	failed := 0
	for _, d := range s.done {
		if d.fail != nil {
			failed++
		}
	}

	s.rc.Events.Progress(s.rc.Address, stage.Progress{Done: len(s.done) - failed, Failed: failed, Total: s.total})
}

// pair has the values of a row before and now.
type pair struct {
	text          string
	before, again float64
	clocks        string
}

func (p pair) ratio() float64 { return p.again / p.before }
func (p pair) off() float64   { return math.Abs(p.ratio() - 1) }

type result struct {
	pairs    []pair
	failed   int
	failures []string
}

// compare joins the sampled rows with what was measured now.
func compare(ds *stage.Dataset, done []*repeat) (result, error) {
	var res result
	metric := dedupe.SchemaOf(ds).Primary().Name
	lat, err := table.Float64s(ds.Table, metric)
	if err != nil {
		return res, err
	}

	for _, j := range done {
		for _, p := range j.points {
			text := table.Describe(ds.Table, p.row, ds.Info.Params)
			if j.fail != nil {
				res.failed++
				res.failures = append(res.failures, fmt.Sprintf("%s failed this time: %s", text, j.fail.Message))
				continue
			}

			again := find(j.rows, p)
			v, ok := number(again[metric])
			if !ok || v <= 0 {
				res.failed++
				res.failures = append(res.failures, text+" gave no usable row this time")
				continue
			}

			res.pairs = append(res.pairs, pair{text: text, before: lat.Values[p.row], again: v,
				clocks: clocks(ds, p.row, again)})
		}
	}

	slices.SortStableFunc(res.pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.off(), a.off()), cmp.Compare(a.text, b.text))
	})

	slices.Sort(res.failures)
	return res, nil
}

// find returns the row that answers a point: at the same place of the sweep and, if several kernels have
// rows, of the same kernel.
func find(rows []worker.Row, p point) worker.Row {
	var at []worker.Row
	for _, r := range rows {
		ok := true
		for name, want := range p.at {
			got, isNum := number(r[name])
			if w, wantNum := number(want); isNum && wantNum {
				ok = ok && got == w
			} else {
				ok = ok && fmt.Sprint(r[name]) == fmt.Sprint(want)
			}
		}

		if ok {
			at = append(at, r)
		}
	}

	for _, r := range at {
		if len(at) == 1 || fmt.Sprint(r["kernel_source"]) == p.kernel {
			return r
		}
	}

	return nil
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case float64:
		return v, true
	}

	return 0, false
}

// clocks describes the clocks at which a row was measured before and now.
func clocks(ds *stage.Dataset, row int, again worker.Row) string {
	var before string
	if col, err := table.Float64s(ds.Table, "sm_clock_mhz"); err == nil {
		if v, ok := col.At(row); ok && v > 0 {
			before = fmt.Sprintf("%.0f", v)
		}
	}

	now := ""
	if v, ok := number(again["sm_clock_mhz"]); ok && v > 0 {
		now = fmt.Sprintf("%.0f", v)
	}

	out := ""
	if before != "" || now != "" {
		out = fmt.Sprintf(" at %s -> %s MHz", cmp.Or(before, "?"), cmp.Or(now, "?"))
	}

	if col, err := table.Bools(ds.Table, "throttled"); err == nil && !col.Null(row) && col.Values[row] {
		out += " (throttled before)"
	}

	if again["throttled"] == true {
		out += " (throttled again)"
	}

	return out
}

func (r result) ratios() []float64 {
	var out []float64
	for _, p := range r.pairs {
		out = append(out, p.ratio())
	}
	return out
}

func (r result) median() float64 { return stats.Rank(sortedCopy(r.ratios()), 0.5) }

func (r result) p95() float64 {
	var out []float64
	for _, p := range r.pairs {
		out = append(out, p.off())
	}
	return stats.Rank(sortedCopy(out), 0.95)
}

func (r result) worst() float64 {
	if len(r.pairs) == 0 {
		return math.NaN()
	}
	return r.pairs[0].off()
}

// lines describes the worst rows with their clocks, failures first.
func (r result) lines(n int) []string {
	out := slices.Clone(r.failures)
	for _, p := range r.pairs {
		out = append(out, fmt.Sprintf("%s: %.6g -> %.6g ms (x %.4f)%s", p.text, p.before, p.again, p.ratio(), p.clocks))
	}
	return out[:min(len(out), n)]
}
