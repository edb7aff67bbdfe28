package collect

import (
	"encoding/json"
	"slices"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
)

// attempt is the policy's data for a task in the pool.
type attempt struct {
	task  int
	units []int
	tries map[string]int // retries so far, by reason
	kept  bool           // a failed try has returned rows
}

// recorder receives the results of units. The policy calls it from the pool's goroutine.
type recorder interface {
	// settle stores the final results of the units of one task.
	settle(units []int, e []*rows.Entry)
	// failed reports a failed case. tell is false if enough similar failures were shown.
	failed(c worker.Case, class string, f *worker.Failure, tell bool)
	// note shows a line to the user.
	note(level, text string)
}

// policy hands tasks to the pool rung by rung, schedules retries, trips groups and stops the ramp. It
// implements worker.CaseSource.
type policy struct {
	job      *job
	limits   limits
	rules    []Rule
	op       string
	recorder recorder
	now      func() time.Time
	stop     <-chan struct{}
	halt     func() bool // reports whether to stop because rows cannot be stored
	// label returns framework, version and device of a row. It is nil if the journal's context fixes
	// them.
	label func(*worker.Hello) *rows.Label
	// attach stores the files of a case; nil drops them. attached are the stored files of the case that
	// is being processed.
	attach   func(worker.Outcome) []stage.Attachment
	attached []stage.Attachment
	// shared contains the group states of other processes. It is nil if this process has all cases.
	shared *sharedGroups
	beside []stage.Attachment // of the next case passed to Done
	// toldRepeated is set after the first warning about repeated rows.
	toldRepeated bool

	rungs   [][]int // remaining, the next one first
	rung    int     // number of the current one
	total   int     // of rungs
	queue   []int   // tasks of the current rung
	again   []*worker.Task
	held    map[string][]int // tasks of the current rung that wait for room, by group
	out     int              // handed out and not finished
	longest time.Duration
	history int // number of cases that longest covers

	shownFailures map[string]int
	groups        map[string]*group
	rungFails     int
	rungDone      int
	stopped       string // why the ramp stopped; "" if it did not
}

// group is the breaker's state for cases with the same values in its columns.
type group struct {
	measured int // cases, including earlier runs
	earlier  int // failures of earlier runs
	failures int // in this run, before the first measured one
	out      int // handed out and not finished
	tripped  string
	last     string // message of the last failure
}

// newPolicy returns a policy for the open tasks of j, in the given order. earlier are wall times of
// earlier cases in seconds.
func newPolicy(j *job, order []int, l limits, rules []Rule, op string, earlier []float64, seed int64, r recorder,
	stop <-chan struct{}) *policy {
	p := &policy{
		job: j, limits: l, rules: rules, op: op, recorder: r, now: time.Now, stop: stop, halt: func() bool { return false },
		rungs: rungs(order, l.rungs, seed), groups: map[string]*group{}, shownFailures: map[string]int{}, held: map[string][]int{},
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

// learn adds the wall time of a case to the history for deadlines.
func (p *policy) learn(seconds float64) {
	p.history++
	p.longest = max(p.longest, time.Duration(seconds*float64(time.Second)))
}

// deadline returns the maximum duration of the next case.
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

// settled records that a case has ended, and queues tasks of its group that waited for room.
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

// sweep returns the points of a case that are still open, as JSON.
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

// interrupt marks the open units as interrupted and returns their number.
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

// leftOut counts the units that the options exclude, such as with --smoke. They do not count as progress.
func (j *job) leftOut() (n int) {
	for i := range j.units {
		if u := &j.units[i]; u.state == skipped && u.class() == "not_selected" {
			n++
		}
	}
	return n
}
