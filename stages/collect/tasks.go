package collect

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
)

// smokeCases is how many cases -smoke collects.
const smokeCases = 4

// A unit is what one row of the planned table is: a case, or one point of a
// case that sweeps.
type unit struct {
	why     *why  // shared by units; nil where there is nothing to say
	failure int32 // of failed units: in job.failures, from 1
	task    int32 // in job.tasks
	point   int32 // of the sweep; 0 without one
	// Of measured units: their rows in job.rows, or in job.stored from inStored on.
	row, rows int32
	state     state
	taken     bool // of measured units: the rows are of the stage's stored table
}

// why says why a unit was skipped, and why it has no kernel.
type why struct {
	class  string // of a skip: tripped, ramp, not_selected, interrupted, unsupported_config
	reason string // of a skip: why
	barred string // why it has no kernel on the plan's device; "" when it has
}

func (u *unit) class() string {
	if u.why == nil {
		return ""
	}
	return u.why.class
}

func (u *unit) reason() string {
	if u.why == nil {
		return ""
	}
	return u.why.reason
}

func (u *unit) barred() string {
	if u.why == nil {
		return ""
	}
	return u.why.barred
}

// shared is the one copy of w; nil when it is empty.
func (j *job) shared(w why) *why {
	if w == (why{}) {
		return nil
	}
	if p := j.whys[w]; p != nil {
		return p
	}
	p := new(why) // w itself would be allocated in each call
	*p = w
	j.whys[w] = p
	return p
}

// skip ends a unit that is not tried.
func (j *job) skip(u *unit, class, reason string) {
	u.state = skipped
	if u.why == nil || u.why.class != class || u.why.reason != reason {
		u.why = j.shared(why{class, reason, u.barred()})
	}
}

// settle takes back a skip.
func (j *job) settle(u *unit, s state) {
	u.state, u.why = s, j.shared(why{barred: u.barred()})
}

// id names a unit in the journal and in tables.
func (j *job) id(unit int) string {
	if ids := j.pointIDs(); ids != nil {
		return ids[unit]
	}
	return j.cases.ID(int(j.units[unit].task))
}

// pointIDs are those of the units where cases sweep, else nil. Plans that only
// count make none.
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

// pointIDs are ids of units, made when they are first asked for.
type pointIDs struct {
	once sync.Once
	all  []string
}

// group is what the breaker counts a task's failures with.
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
	first, n int32 // units
	group    int32 // in job.groups
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
	sweeps map[string]*sweep // by the digest of their points
	rows   *rowStore
	// failures are the entries of failed units.
	failures []*entry
	stored   *storedColumns // rows that need not be in rows; nil without any
	// demands are columns that every row must have, for a stage behind.
	demands []string
	// tried are the tasks that failed before and are tried again, with their group.
	tried map[int]bool
	// retrying is the epoch of a -retry that goes on; "" without any.
	retrying string
	schema   *schema         // of the rows
	columns  map[string]bool // of the rows that were judged
	mixed    []string        // columns of the table with values of several types
}

// sweep is a decoded list of points; many cases share one.
type sweep struct {
	raw    []json.RawMessage
	values []map[string]any // numbers as json.Number
}

// sweepOf returns the points of a task; nil without a sweep.
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

// newJob lists the cases, in grid order. Unknown columns in groupBy are an
// error.
func newJob(cases *grid.Cases, s *schema, groupBy []string, opts stage.Options) (*job, error) {
	j := &job{cases: cases, schema: s, tasks: make([]task, cases.Len()), units: make([]unit, 0, cases.Rows()), sweeps: map[string]*sweep{}, whys: map[why]*why{}}
	group, err := columnsOf(cases, groupBy, "breaker.group_by")
	if err != nil {
		return nil, err
	}
	numbers := map[string]int32{}
	for i := range j.tasks {
		t := &j.tasks[i]
		t.first, t.n = int32(len(j.units)), 1
		if cases.SweepColumns() != nil {
			t.n = int32(cases.Sweep(i).Len())
		}
		name := groupName(cases, i, groupBy, group)
		n, known := numbers[name]
		if !known {
			n = int32(len(j.groups))
			numbers[name] = n
			j.groups = append(j.groups, name)
		}
		t.group = n
		if cases.SweepColumns() == nil {
			j.units = append(j.units, unit{task: int32(i)})
			continue
		}
		for p := range t.n {
			j.units = append(j.units, unit{task: int32(i), point: p})
		}
	}
	j.rows = newRowStore(s)
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

func notSelected(o stage.Options) string {
	if o.Smoke {
		return "-smoke collects a sample"
	}
	return fmt.Sprintf("-limit %d", o.Limit)
}

// columnsOf finds columns of the grid by name.
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

// groupName is "gemm_dtype=fp8 tp_size=8"; "" without columns.
func groupName(cases *grid.Cases, i int, names []string, cols []int) string {
	if len(cols) == 0 {
		return ""
	}
	var b strings.Builder
	for k, col := range cols {
		if k > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(names[k] + "=" + text(cases.Value(i, col)))
	}
	return b.String()
}

// selection returns the cases that the options ask for, in grid order. It
// depends on the grid and the options alone, not on what is measured already.
func selection(n int, o stage.Options) []int {
	want := n
	if o.Limit > 0 {
		want = min(want, o.Limit)
	}
	random := o.Shuffle
	if o.Smoke {
		want, random = min(want, smokeCases), true
	}
	if want == n || !random {
		out := make([]int, want)
		for i := range out {
			out[i] = i
		}
		return out
	}
	out := rng(o.Seed, "selection").Perm(n)[:want]
	slices.Sort(out)
	return out
}

// truncated says whether the options leave out cases of a grid of n.
func truncated(n int, o stage.Options) bool {
	return (o.Smoke && n > smokeCases) || (o.Limit > 0 && n > o.Limit)
}

// rng is a generator for one purpose of a run.
func rng(seed int64, purpose string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, c := range []byte(purpose) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(uint64(seed), h))
}

// todo lists the tasks with an open unit.
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

// openUnits are the units of a task that are still to be measured.
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

// counts sums up for a plan: in cases, and the rows still to come.
func (j *job) counts() stage.CaseCounts {
	c := stage.CaseCounts{Planned: len(j.tasks)}
	for i := range j.tasks {
		t := &j.tasks[i]
		openRows, held, barred := 0, false, 0
		for k := t.first; k < t.first+t.n; k++ {
			u := &j.units[k]
			if u.state == open {
				openRows++
			}
			if u.state == skipped && u.barred() != "" {
				barred++
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
		case barred == int(t.n) && t.n > 0:
			c.Unsupported++
		default:
			c.Reuse++
		}
	}
	return c
}

// fresh is what counts says while nothing is measured. Plans of whole backends
// have hundreds of thousands of cases, most of them in grids without history.
func fresh(cases *grid.Cases, opts stage.Options) stage.CaseCounts {
	picked := selection(cases.Len(), opts)
	c := stage.CaseCounts{Planned: len(picked), LeftOut: cases.Len() - len(picked)}
	for _, i := range picked {
		rows := 1
		if cases.SweepColumns() != nil {
			rows = cases.Sweep(i).Len()
		}
		if rows == 0 {
			c.Reuse++ // nothing to measure
			continue
		}
		c.Collect++
		c.Rows += rows
	}
	return c
}

// asked counts the cases that the options select, where cases and units are not
// the same; else 0.
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

// order puts tasks into the order in which they are collected.
func (j *job) order(tasks []int, order string, weights []string, o stage.Options) ([]int, error) {
	out := slices.Clone(tasks)
	if o.Shuffle {
		order = OrderShuffled
	}
	switch order {
	case OrderShuffled:
		r := rng(o.Seed, "order")
		r.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	case OrderWeights:
		if _, err := columnsOf(j.cases, weights, "weights"); err != nil {
			return nil, err
		}
		out = j.together(out, weights)
	}
	return out, nil
}

// together moves tasks with the same values of the columns behind the first of
// them; the order is kept otherwise.
func (j *job) together(order []int, columns []string) []int {
	if len(columns) == 0 {
		return order
	}
	cols, err := columnsOf(j.cases, columns, "the runtime")
	if err != nil {
		panic("collect: " + err.Error()) // they are the grid's
	}
	rank, name := map[string]int{}, make(map[int]string, len(order))
	for _, t := range order {
		name[t] = groupName(j.cases, t, columns, cols)
		if _, ok := rank[name[t]]; !ok {
			rank[name[t]] = len(rank)
		}
	}
	out := slices.Clone(order)
	slices.SortStableFunc(out, func(a, b int) int { return rank[name[a]] - rank[name[b]] })
	return out
}

// rungs splits tasks into the samples of the ramp and the rest. The samples
// are random, the rest keeps its order.
func rungs(tasks []int, sizes []int, seed int64) [][]int {
	perm := rng(seed, "ramp").Perm(len(tasks))
	taken := make([]bool, len(tasks))
	var out [][]int
	done := 0
	for _, size := range sizes {
		if size >= len(tasks) {
			break
		}
		if size <= done {
			continue
		}
		sample := slices.Sorted(slices.Values(perm[done:size]))
		done = size
		var rung []int
		for _, at := range sample {
			taken[at] = true
			rung = append(rung, tasks[at])
		}
		out = append(out, rung)
	}
	var rest []int
	for at, t := range tasks {
		if !taken[at] {
			rest = append(rest, t)
		}
	}
	return append(out, rest)
}
