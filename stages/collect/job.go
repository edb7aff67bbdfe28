package collect

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/stages/collect/policy"
	"aicplan/stages/collect/rows"
)

// job is the work of one collect: all cases of its grid.
type job struct {
	cases  *grid.Cases
	tasks  []task
	units  []unit
	groups []string // names of the breaker's groups
	ids    func() []string
	sweeps map[string]*sweep // by the digest of the points
	schema rows.Schema
	table  *catalog.Table // perf table of the rows, or nil
	// demands are columns that every row must have for a downstream stage.
	demands []string
	columns map[string]bool // of all rows that were judged
	// tried are the tasks that failed before and are retried with their group.
	tried map[int]bool
	// retrying is the epoch of an unfinished --retry, or "".
	retrying string
	// shared is set if another process settles units too. Failures are final then.
	shared bool
}

// A task is one case of the grid, in its order, with the units that it answers.
type task struct {
	first, n int32 // range of units
	group    int32 // index into job.groups
	selected bool
}

// A unit is one row of the planned table: a case, or one point of a case that sweeps.
type unit struct {
	task  int32 // index into job.tasks
	point int32 // index into the sweep; 0 without one
	state state
	why   *skip // of a skipped unit
	bar   *skip // why the unit has no kernel on the plan's device, or nil
}

type state byte

const (
	open     state = iota
	measured       // has rows
	failed         // has a failure
	skipped        // was not tried
)

// skip is why a unit is not tried. Units share it.
type skip struct {
	class  string // tripped, ramp, not_selected, interrupted, lost, unsupported_config
	reason string
}

// notSelected is the class of units that the options or another task's share exclude.
const notSelected = "not_selected"

func (u *unit) skip(why *skip) { u.state, u.why = skipped, why }

func (u *unit) settle(s state) { u.state, u.why = s, nil }

// is reports whether a unit was skipped with a class.
func (u *unit) is(class string) bool { return u.state == skipped && u.why.class == class }

// newJob creates the job of a plan or a run.
func (c *Config) newJob(m *Measurement, opts stage.Options) (*job, error) {
	j, err := newJob(m.Cases, c.schema(m.info.Perf, m.info.Op), c.limits.GroupBy)
	if err == nil {
		err = j.excludeUnsupported(c.unsupported)
	}
	if err != nil {
		return nil, err
	}
	j.table, _ = c.tables.Lookup(c.perfTable(m.info.Perf))
	j.leaveOut(opts)
	return j, nil
}

// newJob creates the tasks and units of cases, in grid order. It returns an error if groupBy names an unknown
// column.
func newJob(cases *grid.Cases, s rows.Schema, groupBy []string) (*job, error) {
	j := &job{cases: cases, schema: s, tasks: make([]task, cases.Len()), units: make([]unit, 0, cases.Rows()),
		sweeps: map[string]*sweep{}, columns: map[string]bool{}}
	j.ids = sync.OnceValue(j.pointIDs)

	groups, err := newGrouping(cases, groupBy, "breaker.group_by")
	if err != nil {
		return nil, err
	}

	for i := range j.tasks {
		t := &j.tasks[i]
		t.first, t.n, t.group, t.selected = int32(len(j.units)), 1, groups.of(i), true
		if cases.SweepColumns() != nil {
			t.n = int32(cases.Sweep(i).Len())
		}

		for p := range t.n {
			j.units = append(j.units, unit{task: int32(i), point: p})
		}
	}

	j.groups = groups.names
	return j, nil
}

// leaveOut skips the tasks that the options leave out. Only tasks that can run count for --limit and --smoke.
func (j *job) leaveOut(opts stage.Options) {
	left := &skip{notSelected, fmt.Sprintf("--limit %d", opts.Limit)}
	if opts.Smoke {
		left.reason = "--smoke collects a sample"
	}

	tasks := j.todo()
	for i, chosen := range selection(len(tasks), opts) {
		if chosen {
			continue
		}
		j.tasks[tasks[i]].selected = false
		for _, u := range j.openUnits(tasks[i]) {
			j.units[u].skip(left)
		}
	}
}

// id returns the id of a unit in the journal and in tables.
func (j *job) id(unit int) string {
	if ids := j.ids(); ids != nil {
		return ids[unit]
	}
	return j.cases.ID(int(j.units[unit].task))
}

// pointIDs returns the ids of all units if cases sweep, and nil otherwise.
func (j *job) pointIDs() []string {
	if j.cases.SweepColumns() == nil {
		return nil
	}
	all := make([]string, 0, len(j.units))
	for i := range j.tasks {
		all = append(all, j.cases.PointIDs(i)...)
	}
	return all
}

// groupOf returns the breaker group of a task.
func (j *job) groupOf(task int) int { return int(j.tasks[task].group) }

// sweep is a decoded list of points. Many cases share one.
type sweep struct {
	raw    []json.RawMessage
	values []map[string]any // numbers are json.Number
}

// newSweep returns the points, or nil if there are none.
func newSweep(p grid.Points) *sweep {
	if p.Len() == 0 {
		return nil
	}
	s := &sweep{}
	mustDecode(p.JSON(), &s.raw)
	mustDecode(p.JSON(), &s.values)
	return s
}

// json returns some points as JSON, or nil without a sweep.
func (s *sweep) json(points []int) json.RawMessage {
	if s == nil {
		return nil
	}
	var want [][]byte
	for _, p := range points {
		want = append(want, s.raw[p])
	}
	return slices.Concat([]byte("["), bytes.Join(want, []byte(",")), []byte("]"))
}

// sweepOf returns the points of a task, or nil without a sweep.
func (j *job) sweepOf(task int) *sweep {
	p := j.cases.Sweep(task)
	s, known := j.sweeps[p.Digest]
	if !known {
		s = newSweep(p)
		j.sweeps[p.Digest] = s
	}
	return s
}

// mustDecode decodes the JSON of a grid, which is valid.
func mustDecode(raw []byte, into any) {
	if err := textutil.DecodeJSON(raw, into); err != nil {
		panic("collect: the sweep of a grid is no JSON: " + err.Error())
	}
}

// params returns the parameters of a unit as one JSON object.
func (j *job) params(u *unit) []byte {
	raw := j.cases.ParamsJSON(int(u.task))
	s := j.sweepOf(int(u.task))
	switch {
	case s == nil || len(s.raw[u.point]) <= 2:
		return raw
	case len(raw) <= 2:
		return s.raw[u.point]
	}
	return slices.Concat(raw[:len(raw)-1], []byte(","), s.raw[u.point][1:]) // the keys are disjoint
}

// all returns the units with their numbers.
func (j *job) all() iter.Seq2[int, *unit] {
	return func(yield func(int, *unit) bool) {
		for i := range j.units {
			if !yield(i, &j.units[i]) {
				return
			}
		}
	}
}

// openUnits returns the open units of a task.
func (j *job) openUnits(task int) (out []int) {
	t := &j.tasks[task]
	for i := int(t.first); i < int(t.first+t.n); i++ {
		if j.units[i].state == open {
			out = append(out, i)
		}
	}
	return out
}

// count returns the number of units of a task that have a state.
func (j *job) count(task int, s state) (n int) {
	t := &j.tasks[task]
	for i := t.first; i < t.first+t.n; i++ {
		if j.units[i].state == s {
			n++
		}
	}
	return n
}

// todo returns the tasks with an open unit.
func (j *job) todo() (out []int) {
	for i := range j.tasks {
		if j.count(i, open) > 0 {
			out = append(out, i)
		}
	}
	return out
}

// close skips the open units for which which returns true.
func (j *job) close(class, reason string, which func(unit int) bool) {
	why := &skip{class, reason}
	for i, u := range j.all() {
		if u.state == open && which(i) {
			u.skip(why)
		}
	}
}

func allUnits(int) bool { return true }

// inGroup returns a function that reports whether a unit is in a group.
func (j *job) inGroup(group int) func(unit int) bool {
	return func(i int) bool { return j.groupOf(int(j.units[i].task)) == group }
}

// counts returns the number of cases by state for a plan, and the number of open rows.
func (j *job) counts() stage.CaseCounts {
	c := stage.CaseCounts{Planned: len(j.tasks)}
	for i := range j.tasks {
		t := &j.tasks[i]
		openRows, held, barred := 0, false, 0
		for k := t.first; k < t.first+t.n; k++ {
			switch u := &j.units[k]; {
			case u.state == open:
				openRows++
			case u.state == skipped && u.bar != nil:
				barred++
			case u.state == failed || u.is("tripped"):
				held = true
			}
		}

		switch {
		case t.n == 0: // its sweep has no points
			c.Planned--
		case !t.selected:
			c.Planned--
			c.LeftOut++
		case openRows > 0:
			c.Collect++
			c.Rows += openRows
		case held:
			c.Hold++
		case barred == int(t.n):
			c.Unsupported++
		default:
			c.Reuse++
		}
	}

	return c
}

// asked returns the number of cases that the options select, or 0 if every case has exactly one unit.
func (j *job) asked() int {
	c := j.counts()
	if c.Planned+c.LeftOut == len(j.units) {
		return 0
	}
	return c.Planned
}

// tally counts units by state.
type tally struct {
	stage.Counts
	excluded int // skipped because the options or the shares of tasks exclude them
	barred   int // skipped because they have no kernel
}

func (j *job) tally() (n tally) {
	n.Planned = len(j.units)
	for _, u := range j.all() {
		switch u.state {
		case measured:
			n.Measured++
		case failed:
			n.Failed++
		case skipped:
			n.Skipped++
			if u.is(notSelected) {
				n.excluded++
			} else if u.bar != nil {
				n.barred++
			}
		}
	}
	return n
}

// past returns the counts of finished tasks by group.
func (j *job) past() []policy.Past {
	out := make([]policy.Past, len(j.groups))
	for i := range j.tasks {
		g := &out[j.tasks[i].group]
		if j.count(i, measured) > 0 {
			g.Measured++
		} else if j.count(i, failed) > 0 {
			g.Failed++
		}
	}
	return out
}

// smokeCases is the number of cases that --smoke collects.
const smokeCases = 4

// selection reports for each of n cases whether the options select it. It does not depend on what was measured already.
func selection(n int, o stage.Options) []bool {
	most, out := n, make([]bool, n)
	if o.Limit > 0 {
		most = min(n, o.Limit)
	}

	if o.Smoke {
		for _, i := range policy.Random(o.Seed, "selection").Perm(n)[:min(most, smokeCases)] {
			out[i] = true
		}
		return out
	}
	for i := range most {
		out[i] = true
	}
	return out
}

// truncated reports whether the options leave out cases of a grid with n cases.
func truncated(n int, o stage.Options) bool {
	return (o.Smoke && n > smokeCases) || (o.Limit > 0 && n > o.Limit)
}

// columnsOf returns the indexes of grid columns. attr names the attribute in the error for an unknown column.
func columnsOf(cases *grid.Cases, names []string, attr string) ([]int, error) {
	var out []int
	for _, n := range names {
		at := slices.Index(cases.Columns(), n)
		if at < 0 {
			return nil, fmt.Errorf("%s names %q; the grid's columns are %s", attr, n, strings.Join(cases.Columns(), ", "))
		}
		out = append(out, at)
	}
	return out, nil
}

// grouping numbers the distinct values in some columns of a grid, in order of first appearance.
type grouping struct {
	cases   *grid.Cases
	columns []int
	numbers map[string]int32 // by the codes of the values
	names   []string         // such as "gemm_dtype=fp8 tp_size=8"; "" without columns
	key     []byte
}

// newGrouping returns a grouping by columns. attr names the attribute in the error for an unknown column.
func newGrouping(cases *grid.Cases, columns []string, attr string) (*grouping, error) {
	at, err := columnsOf(cases, columns, attr)
	return &grouping{cases: cases, columns: at, numbers: map[string]int32{}}, err
}

// of returns the number of the values of case i.
func (g *grouping) of(i int) int32 {
	g.key = g.key[:0]
	for _, col := range g.columns {
		g.key = binary.AppendUvarint(g.key, uint64(g.cases.Code(i, col)))
	}
	n, known := g.numbers[string(g.key)]
	if known {
		return n
	}

	var values []string
	for _, col := range g.columns {
		values = append(values, g.cases.Columns()[col]+"="+grid.Text(g.cases.Value(i, col)))
	}
	n = int32(len(g.names))
	g.numbers[string(g.key)] = n
	g.names = append(g.names, strings.Join(values, " "))
	return n
}

// together moves each task next to the first one with the same values in columns. Otherwise the order is unchanged.
// attr names the attribute in the error for an unknown column.
func (j *job) together(tasks []int, columns []string, attr string) ([]int, error) {
	g, err := newGrouping(j.cases, columns, attr)
	if err != nil || len(columns) == 0 {
		return tasks, err
	}
	for _, t := range tasks {
		g.of(t) // numbers follow the order of the tasks
	}

	out := slices.Clone(tasks)
	slices.SortStableFunc(out, func(a, b int) int { return int(g.of(a) - g.of(b)) })
	return out, nil
}
