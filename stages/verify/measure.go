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
	"aicplan/stages/collect/rows"
	"aicplan/stages/dedupe"
)

// deadline limits one case. It is generous because a sample is small.
const deadline = 10 * time.Minute

// repeat is a case with its sampled rows.
type repeat struct {
	worker.Case
	points []point
	other  func(worker.Row) bool // reports whether a row belongs to another case
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
func (c *Config) tasksOf(m *collect.Measurement, ds *stage.Dataset, sampled []int) ([]*repeat, error) {
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
	points := map[int][]int{} // by task
	var order []int
	for _, row := range sampled {
		at, ok := where[ids.Values[row]]
		if !ok {
			continue
		}

		j := byTask[at.task]
		if j == nil {
			j = &repeat{other: func(row worker.Row) bool { return m.Contradicts(at.task, row) }}
			byTask[at.task], order = j, append(order, at.task)
		}

		pt := point{row: row}
		pt.kernel, _ = kernels.At(row)
		if all := m.Points(at.task); all != nil {
			pt.at = all[at.point]
		}
		j.points = append(j.points, pt)
		points[at.task] = append(points[at.task], at.point)
	}

	if len(order) == 0 {
		return nil, fmt.Errorf("none of the %d sampled rows is a case of %s as it is planned now; collect again",
			len(sampled), c.collect.Address)
	}

	var out []*repeat
	for _, task := range order {
		slices.Sort(points[task])
		byTask[task].Case = m.Case(task, slices.Compact(points[task]))
		out = append(out, byTask[task])
	}
	return out, nil
}

// queue passes the cases to the pool.
type queue struct {
	rc    *stage.RunContext
	tasks []*repeat
	done  []*repeat
	total int
}

// Pending implements worker.CaseSource.
func (s *queue) Pending() int {
	if s.rc.Stopped() {
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
	return &worker.Task{Case: j.Case, Deadline: deadline, Data: j}
}

// Done implements worker.CaseSource.
func (s *queue) Done(o worker.Outcome) {
	j := o.Task.Data.(*repeat)
	j.rows, j.fail = slices.DeleteFunc(o.Rows, j.other), o.Failure
	s.done = append(s.done, j)

	failed := 0
	for _, d := range s.done {
		if d.fail != nil {
			failed++
		}
	}

	s.rc.Events.Progress(s.rc.Address, stage.Progress{Done: len(s.done) - failed, Failed: failed, Total: s.total})
}

// pair compares the values of a row before and now.
type pair struct {
	line       string  // for readers
	ratio, off float64 // again / before, and its distance from 1
}

// maxLines is the number of rows that are listed.
const maxLines = 20

// compare joins the sampled rows with what was measured now. The lines list failures first, and then the worst rows
// with their clocks.
func compare(ds *stage.Dataset, done []*repeat) (facts, error) {
	metric := dedupe.SchemaOf(ds).Primary().Name
	lat, err := table.Float64s(ds.Table, metric)
	if err != nil {
		return facts{}, err
	}

	var pairs []pair
	var lines []string
	for _, j := range done {
		for _, p := range j.points {
			text := table.Describe(ds.Table, p.row, ds.Info.Params)
			if j.fail != nil {
				lines = append(lines, fmt.Sprintf("%s failed this time: %s", text, j.fail.Message))
				continue
			}

			again := find(j.rows, p)
			v, ok := number(again[metric])
			if !ok || v <= 0 {
				lines = append(lines, text+" gave no usable row this time")
				continue
			}

			before := lat.Values[p.row]
			pairs = append(pairs, pair{fmt.Sprintf("%s: %.6g -> %.6g ms (x %.4f)%s", text, before, v, v/before,
				clocks(table.Row(ds.Table, p.row), again)), v / before, math.Abs(v/before - 1)})
		}
	}

	slices.Sort(lines)
	f := facts{sampled: len(pairs), failed: len(lines)}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.off, a.off), cmp.Compare(a.line, b.line))
	})

	var ratios, offs []float64
	for _, p := range pairs {
		ratios, offs, lines = append(ratios, p.ratio), append(offs, p.off), append(lines, p.line)
	}

	slices.Sort(ratios)
	slices.Sort(offs)
	f.median, f.p95, f.worst = stats.Rank(ratios, 0.5), stats.Rank(offs, 0.95), stats.Rank(offs, 1)
	f.lines = lines[:min(len(lines), maxLines)]
	return f, nil
}

// find returns the row that answers a point: at the same place of the sweep and, if several kernels have
// rows, of the same kernel.
func find(all []worker.Row, p point) worker.Row {
	at := slices.DeleteFunc(slices.Clone(all), func(r worker.Row) bool {
		for name, want := range p.at {
			if !rows.Same(r[name], want) {
				return true
			}
		}
		return false
	})

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
func clocks(before, now map[string]any) string {
	mhz := func(row map[string]any) string {
		if v, ok := number(row["sm_clock_mhz"]); ok && v > 0 {
			return fmt.Sprintf("%.0f", v)
		}
		return "?"
	}

	out := ""
	if a, b := mhz(before), mhz(now); a != "?" || b != "?" {
		out = fmt.Sprintf(" at %s -> %s MHz", a, b)
	}
	if before["throttled"] == true {
		out += " (throttled before)"
	}
	if now["throttled"] == true {
		out += " (throttled again)"
	}
	return out
}
