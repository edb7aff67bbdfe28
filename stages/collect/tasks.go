package collect

import (
	"encoding/json"
	"sync"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
)

// smokeCases is the number of cases that --smoke collects.
const smokeCases = 4

// id returns the id of a unit in the journal and in tables.
func (j *job) id(unit int) string {
	if ids := j.pointIDs(); ids != nil {
		return ids[unit]
	}
	return j.cases.ID(int(j.units[unit].task))
}

// pointIDs returns the ids of all units if cases sweep, and nil otherwise. The ids are computed on first
// use because plans that only count do not need them.
func (j *job) pointIDs() []string {
	if j.cases.SweepColumns() == nil {
		return nil
	}
	j.ids.once.Do(func() {
		j.ids.all = make([]string, 0, len(j.units))
		for i := range j.tasks {
			j.ids.all = append(j.ids.all, j.cases.PointIDs(i)...)
		}
	})
	return j.ids.all
}

// pointIDs caches the ids of units.
type pointIDs struct {
	once sync.Once
	all  []string
}

// group returns the breaker group of a task.
func (j *job) group(task int) string { return j.groups[j.tasks[task].group] }

type state byte

const (
	open     state = iota
	measured       // has rows
	failed         // has a failure
	skipped        // was not tried
)

// A task is one case of the grid, in its order, with the units that it answers.
type task struct {
	first, n int32 // range of units
	group    int32 // index into job.groups
	selected bool
}

// job is the work of one collect: all cases of its grid.
type job struct {
	cases  *grid.Cases
	tasks  []task
	units  []unit
	ids    pointIDs
	groups []string
	whys   map[why]*why
	sweeps map[string]*sweep // by the digest of the points
	stored *stored           // set by load
	// demands are columns that every row must have for a downstream stage.
	demands []string
	// tried are the tasks that failed before and are retried with their group.
	tried map[int]bool
	// retrying is the epoch of an unfinished --retry, or "".
	retrying string
	schema   rows.Schema
	columns  map[string]bool // of all rows that were judged
}

// sweep is a decoded list of points. Many cases share one.
type sweep struct {
	raw    []json.RawMessage
	values []map[string]any // numbers are json.Number
}

// sweepOf returns the points of a task, or nil without a sweep.
func (j *job) sweepOf(task int) *sweep {
	p := j.cases.Sweep(task)
	if p.Len() == 0 {
		return nil
	}

	if s := j.sweeps[p.Digest()]; s != nil {
		return s
	}

	s := &sweep{}
	if err := json.Unmarshal(p.JSON(), &s.raw); err != nil {
		panic("collect: the sweep of a grid is no JSON: " + err.Error())
	}

	for _, raw := range s.raw {
		m, err := decodeObject(raw)
		if err != nil {
			panic("collect: the sweep of a grid is no JSON: " + err.Error())
		}
		s.values = append(s.values, m)
	}

	j.sweeps[p.Digest()] = s
	return s
}

// newJob creates the tasks and units of cases, in grid order. It returns an error if groupBy names an
// unknown column.
func newJob(cases *grid.Cases, s rows.Schema, groupBy []string, opts stage.Options) (*job, error) {
	j := &job{cases: cases, schema: s, tasks: make([]task, cases.Len()), units: make([]unit, 0, cases.Rows()),
		sweeps: map[string]*sweep{}, whys: map[why]*why{}}

	groups, err := newGrouping(cases, groupBy, "breaker.group_by")
	if err != nil {
		return nil, err
	}

	for i := range j.tasks {
		t := &j.tasks[i]
		t.first, t.n = int32(len(j.units)), 1
		if cases.SweepColumns() != nil {
			t.n = int32(cases.Sweep(i).Len())
		}

		t.group = groups.of(i)
		if cases.SweepColumns() == nil {
			j.units = append(j.units, unit{task: int32(i)})
			continue
		}

		for p := range t.n {
			j.units = append(j.units, unit{task: int32(i), point: p})
		}
	}

	j.groups = groups.names
	for _, i := range selection(len(j.tasks), opts) {
		j.tasks[i].selected = true
	}

	for i := range j.units {
		if u := &j.units[i]; !j.tasks[u.task].selected {
			j.skip(u, "not_selected", notSelected(opts))
		}
	}

	return j, nil
}

// todo returns the tasks with an open unit.
func (j *job) todo() []int {
	var out []int
	for i := range j.tasks {
		if j.isOpen(i) {
			out = append(out, i)
		}
	}
	return out
}

func (j *job) isOpen(task int) bool {
	t := &j.tasks[task]
	for i := t.first; i < t.first+t.n; i++ {
		if j.units[i].state == open {
			return true
		}
	}
	return false
}

// openUnits returns the units of a task that are still open.
func (j *job) openUnits(task int) []int {
	var out []int
	t := &j.tasks[task]
	for i := int(t.first); i < int(t.first+t.n); i++ {
		if j.units[i].state == open {
			out = append(out, i)
		}
	}
	return out
}

// counts returns the number of cases by state for a plan, and the number of open rows.
func (j *job) counts() stage.CaseCounts {
	c := stage.CaseCounts{Planned: len(j.tasks)}
	for i := range j.tasks {
		t := &j.tasks[i]
		openRows, held, noKernel := 0, false, 0
		for k := t.first; k < t.first+t.n; k++ {
			u := &j.units[k]
			if u.state == open {
				openRows++
			}
			if u.state == skipped && u.noKernel() != "" {
				noKernel++
			}
			held = held || u.state == failed || u.state == skipped && u.class() == "tripped"
		}

		switch {
		case !t.selected:
			c.Planned--
			c.LeftOut++

		case openRows > 0:
			c.Collect++
			c.Rows += openRows

		case held:
			c.Hold++

		case noKernel == int(t.n) && t.n > 0:
			c.Unsupported++

		default:
			c.Reuse++
		}
	}

	return c
}

// asked returns the number of cases that the options select, or 0 if every case has exactly one unit.
func (j *job) asked() int {
	if len(j.tasks) == len(j.units) {
		return 0
	}
	n := 0
	for i := range j.tasks {
		if j.tasks[i].selected {
			n++
		}
	}
	return n
}
