package collect

import (
	"encoding/json"
	"slices"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// attempt is what a task carries through the pool.
type attempt struct {
	task  int
	units []int
	tries map[string]int // further tries so far, by why
	kept  bool           // a try that failed has left rows
}

// recorder takes what becomes of units. The policy calls it from the pool's
// goroutine.
type recorder interface {
	// settle stores the final results of the units of one task.
	settle(units []int, e []*entry)
	// failed reports a failed case; tell is false when enough of its kind were
	// shown.
	failed(c worker.Case, class string, f *worker.Failure, tell bool)
	// note shows a line to the user.
	note(level, text string)
}

// policy hands tasks to the pool rung by rung, decides about retries, trips
// groups and stops the ramp. It is the pool's Source.
type policy struct {
	job      *job
	limits   limits
	rules    []Rule
	op       string
	recorder recorder
	now      func() time.Time
	stop     <-chan struct{}
	halt     func() bool // no more tasks: rows cannot be stored
	// label names framework, version and device of a row where the journal does
	// not; nil where it does.
	label func(*worker.Hello) *label
	// attach stores the files of a case; nil drops them. attached are those of the
	// case that ends.
	attach   func(worker.Outcome) []stage.Attachment
	attached []stage.Attachment
	// shared is what other processes know of the groups; nil where this one has all
	// cases.
	shared *sharedGroups
	beside []stage.Attachment // of the case that is next in Done
	// toldRepeated says that a case with repeated rows was noted already.
	toldRepeated bool

	rungs   [][]int // what is left, the current one first
	rung    int     // number of the current one
	total   int     // of rungs
	queue   []int   // tasks of the current rung
	again   []*worker.Task
	held    map[string][]int // of the current rung, by group: see room
	out     int              // handed out and not ended
	longest time.Duration
	history int // number of cases seen when computing longest

	told      map[string]int
	groups    map[string]*group
	rungFails int
	rungDone  int
	stopped   string // why the ramp stopped; "" while it goes on
}

// group is what is known of the cases with one value of the breaker's columns.
type group struct {
	measured int // cases, those of earlier runs included
	earlier  int // failures of earlier runs
	failures int // in this run, before the first measured one
	out      int // handed out and not settled
	tripped  string
	last     string // the last failure's message
}

// newPolicy prepares the tasks of j that are open, in the given order.
func newPolicy(j *job, order []int, l limits, rules []Rule, op string, earlier []float64, seed int64, r recorder, stop <-chan struct{}) *policy {
	p := &policy{
		job: j, limits: l, rules: rules, op: op, recorder: r, now: time.Now, stop: stop, halt: func() bool { return false },
		rungs: rungs(order, l.rungs, seed), groups: map[string]*group{}, told: map[string]int{}, held: map[string][]int{},
	}
	p.total = len(p.rungs)
	for name, g := range j.record() {
		p.groups[name] = &group{measured: g.measured, earlier: g.failed}
	}
	for _, s := range earlier {
		p.learn(s)
	}
	p.nextRung()
	return p
}

// learn takes the wall time of a case into account for deadlines.
func (p *policy) learn(seconds float64) {
	p.history++
	p.longest = max(p.longest, time.Duration(seconds*float64(time.Second)))
}

// deadline is how long a case may take.
func (p *policy) deadline() time.Duration {
	d := time.Duration(float64(p.longest) * p.limits.factor)
	if p.history < p.limits.minHistory {
		return max(p.limits.first, d)
	}
	return max(p.limits.floor, d)
}

func (p *policy) stopping() bool {
	select {
	case <-p.stop:
		return true
	default:
		return p.halt()
	}
}

// settled notes that a case of a group has ended, and puts back what waited for
// that.
func (p *policy) settled(task int) {
	name := p.job.group(task)
	g := p.groups[name]
	g.out--
	held := p.held[name]
	n := len(held)
	if g.tripped == "" {
		n = min(n, p.room(g))
	}
	if n == 0 {
		return
	}
	p.queue = append(slices.Clone(held[:n]), p.queue...)
	if p.held[name] = held[n:]; n == len(held) {
		delete(p.held, name)
	}
}

func (p *policy) skip(task int, class, reason string) {
	for _, u := range p.job.openUnits(task) {
		p.job.skip(&p.job.units[u], class, reason)
	}
}

// Pending implements worker.CaseSource.
func (p *policy) Pending() int {
	if p.stopping() {
		return 0
	}
	p.trim()
	for len(p.queue)+len(p.again)+p.out == 0 && len(p.rungs) > 0 {
		p.endRung()
	}
	return len(p.again) + len(p.queue)
}

// Next implements worker.CaseSource.
func (p *policy) Next() *worker.Task {
	if p.Pending() == 0 {
		return nil
	}
	p.out++
	if len(p.again) > 0 {
		t := p.again[0]
		p.again = p.again[1:]
		t.Deadline = p.deadline()
		return t
	}
	task := p.queue[0]
	p.queue = p.queue[1:]
	p.groups[p.job.group(task)].out++
	return p.makeTask(task)
}

func (p *policy) makeTask(no int) *worker.Task {
	a := &attempt{task: no, units: p.job.openUnits(no), tries: map[string]int{}}
	c := worker.Case{ID: p.job.cases.ID(no), Op: p.op, Params: p.job.cases.ParamsJSON(no), Attempt: 1}
	if p.job.cases.SweepColumns() != nil {
		c.Sweep = p.sweep(no, a.units)
	}
	return &worker.Task{Case: c, Deadline: p.deadline(), Data: a}
}

// sweep is the part of a case's sweep that is still open.
func (p *policy) sweep(task int, units []int) json.RawMessage {
	if len(units) == int(p.job.tasks[task].n) {
		return p.job.cases.Sweep(task).JSON()
	}
	raw := p.job.sweepOf(task).raw
	var want []json.RawMessage
	for _, u := range units {
		want = append(want, raw[p.job.units[u].point])
	}
	out, err := json.Marshal(want)
	if err != nil {
		panic("collect: the sweep of a grid is no JSON: " + err.Error())
	}
	return out
}

// interrupt marks what was not tried when the run was stopped.
func (p *policy) interrupt(reason string) (n int) {
	for i := range p.job.units {
		if u := &p.job.units[i]; u.state == open {
			p.job.skip(u, "interrupted", reason)
			n++
		}
	}
	return n
}

var _ worker.CaseSource = (*policy)(nil)

// tally counts the units by state.
func (j *job) tally() (n stage.Counts) {
	for i := range j.units {
		switch j.units[i].state {
		case measured:
			n.Measured++
		case failed:
			n.Failed++
		case skipped:
			n.Skipped++
		}
	}
	n.Planned = len(j.units)
	return n
}

// leftOut counts the units that this run was not asked for, as with -smoke. They
// are no progress.
func (j *job) leftOut() (n int) {
	for i := range j.units {
		if u := &j.units[i]; u.state == skipped && u.class() == "not_selected" {
			n++
		}
	}
	return n
}
