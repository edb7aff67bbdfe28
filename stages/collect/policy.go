package collect

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
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
	// source goes into the entries of all cases.
	source string
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

// nextRung takes the next rung that has tasks.
func (p *policy) nextRung() {
	for len(p.rungs) > 0 && len(p.queue) == 0 {
		p.queue, p.rungs = p.rungs[0], p.rungs[1:]
		p.rung++
		p.rungFails, p.rungDone = 0, 0
		if p.rung < p.total && len(p.queue) > 0 {
			p.recorder.note("info", fmt.Sprintf("rung %d of %d: a sample of %d cases", p.rung, p.total, len(p.queue)))
		}
	}
}

// trim takes tasks off the head of the queue that are not to be handed out now:
// those of tripped groups, and those of groups without room.
func (p *policy) trim() {
	p.shared.apply(p)
	for len(p.queue) > 0 {
		task := p.queue[0]
		name := p.job.group(task)
		g := p.groups[name]
		switch {
		case g.tripped != "":
			p.skip(task, "tripped", g.tripped)
		case p.room(g) == 0:
			p.held[name] = append(p.held[name], task)
		default:
			return
		}
		p.queue = p.queue[1:]
	}
}

// room is how many more cases of a group may be handed out. Workers hold many at
// once; of a group that was never measured they get no more than the breaker lets
// fail.
func (p *policy) room(g *group) int {
	if p.limits.tripAfter == 0 || g.measured > 0 {
		return math.MaxInt
	}
	return max(0, max(1, p.limits.tripAfter-g.earlier-g.failures)-g.out)
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

// Done implements worker.CaseSource.
func (p *policy) Done(o worker.Outcome) {
	p.out--
	a := o.Task.Data.(*attempt)
	failure := o.Failure
	if p.attached = nil; p.attach != nil && len(o.Attachments) > 0 {
		p.attached = p.attach(o)
	}
	p.attached, p.beside = append(p.attached, p.beside...), nil
	var got answer
	if failure == nil {
		if got, failure = p.job.judge(a.units, o.Rows); failure == nil {
			p.measured(o, a, got)
			p.settled(a.task)
			return
		}
	}
	if len(o.Rows) > 0 && o.Failure != nil {
		if p.keep(o, a, failure); len(a.units) == 0 {
			p.settled(a.task)
			return
		}
	}
	class, oom := classify(p.rules, failure)
	if why := p.retry(a, o, class, oom); why != "" {
		if p.stopping() {
			return // it has not had all its tries: it counts as interrupted
		}
		a.tries[why]++
		again := *o.Task
		again.Case.Attempt++
		if again.Case.Sweep != nil {
			again.Case.Sweep = p.sweep(a.task, a.units)
		}
		again.Fresh = oom
		p.again = append(p.again, &again)
		p.recorder.note("debug", fmt.Sprintf("case %s is tried again (%s): %s", o.Task.Case.ID, why, firstLine(failure.Message)))
		return
	}
	p.failed(o, a, failure, class)
	p.settled(a.task)
}

// retry names the reason to try a case again, or "".
func (p *policy) retry(a *attempt, o worker.Outcome, class string, oom bool) string {
	allowed := func(why string, n int) string {
		if a.tries[why] < n {
			return why
		}
		return ""
	}
	switch {
	case class == worker.ClassTransient:
		return allowed("transient", p.limits.transient)
	case oom:
		return allowed("out of memory", p.limits.oom)
	case o.Cause == worker.CauseHung:
		return allowed("timeout", p.limits.timeout)
	case o.Cause == worker.CauseDied:
		return allowed("crash", p.limits.crash)
	}
	return ""
}

func (p *policy) entry(o worker.Outcome) entry {
	e := entry{Attempts: o.Task.Case.Attempt, Worker: o.Slot, Seconds: o.Seconds, At: o.Ended.UTC().Format(time.RFC3339Nano), Source: p.source, Attachments: p.attached}
	if !o.Started.IsZero() {
		e.At = o.Started.UTC().Format(time.RFC3339Nano)
	}
	if o.Hello != nil {
		e.DeviceUUID = o.Hello.DeviceUUID
		if p.label != nil {
			e.Label = p.label(o.Hello)
		}
	}
	return e
}

// measured stores the rows of a case.
func (p *policy) measured(o worker.Outcome, a *attempt, got answer) {
	p.learn(o.Seconds)
	if got.dropped > 0 {
		p.recorder.note("warn", fmt.Sprintf("case %s: %d rows of points that were not asked for were dropped", o.Task.Case.ID, got.dropped))
	}
	if got.repeated > 0 && !p.toldRepeated {
		p.toldRepeated = true // a grid of such cases would say it of each
		p.recorder.note("warn", fmt.Sprintf("case %s: %d of its rows are those of another one in every column; readers see one of them, and check \"duplicates\" of a gate counts them", o.Task.Case.ID, got.repeated))
	}
	var entries []*entry
	for _, u := range a.units {
		e := p.entry(o)
		e.Points = len(a.units)
		if rows := got.rows[u]; len(rows) > 0 {
			e.Rows = rows
			p.job.units[u].state = measured
		} else {
			e.Failure = &worker.Failure{Class: worker.ClassUnsupportedConfig, Exception: "NoRow", Message: "the op returned no row for this point"}
			p.job.units[u].state = failed
		}
		entries = append(entries, &e)
	}
	g := p.groups[p.job.group(a.task)]
	g.measured++
	p.rungDone++
	p.recorder.settle(a.units, entries)
}

// keep stores the rows that a case had finished before it failed; what is left
// in a.units has none. Collectors that sweep measure what works and raise at the
// end.
func (p *policy) keep(o worker.Outcome, a *attempt, f *worker.Failure) {
	note := func(format string, args ...any) {
		p.recorder.note("warn", fmt.Sprintf("case %s: ", o.Task.Case.ID)+fmt.Sprintf(format, args...))
	}
	got, bad := p.job.judge(a.units, o.Rows)
	if bad != nil {
		note("the %d rows from before the error cannot be used: %s", len(o.Rows), bad.Message)
		return
	}
	var units []int
	var entries []*entry
	most, fewer := 0, 0
	for _, u := range a.units {
		most = max(most, len(got.rows[u]))
	}
	for _, u := range a.units {
		rows := got.rows[u]
		if len(rows) == 0 {
			continue
		}
		if len(rows) < most {
			fewer++
		}
		e := p.entry(o)
		e.Points, e.Rows = len(a.units), rows
		p.job.units[u].state = measured
		units, entries = append(units, u), append(entries, &e)
	}
	if len(units) == 0 {
		return
	}
	switch {
	case len(got.missing) == 0:
		note("the op raised after all its rows, which are kept: %s", firstLine(f.Message))
	case fewer > 0:
		note("the op raised after %d of %d points, which are kept; %d of them have fewer rows than the others: %s", len(units), len(a.units), fewer, firstLine(f.Message))
	}
	p.learn(o.Seconds)
	p.groups[p.job.group(a.task)].measured++
	if !a.kept && len(got.missing) == 0 {
		p.rungDone++
	}
	a.units, a.kept = got.missing, true
	p.recorder.settle(units, entries)
}

// failed stores the failure of a case and draws the consequences.
func (p *policy) failed(o worker.Outcome, a *attempt, f *worker.Failure, class string) {
	var entries []*entry
	for _, u := range a.units {
		e := p.entry(o)
		e.Failure = f
		p.job.units[u].state = failed
		entries = append(entries, &e)
	}
	name := p.job.group(a.task)
	g := p.groups[name]
	g.last = firstLine(f.Message)
	if g.measured == 0 {
		g.failures++
	}
	p.rungDone++
	if !a.kept {
		p.rungFails++ // a sweep that has points without a row is no failed case
	}
	p.recorder.settle(a.units, entries)
	p.recorder.failed(o.Task.Case, class, f, p.tellTimes(class, f))
	if n := p.limits.tripAfter; n > 0 && g.measured == 0 && g.earlier+g.failures >= n && g.tripped == "" && !p.shared.worked(name) {
		g.tripped = tripText(name, g.earlier+g.failures, g.last)
		p.recorder.note("error", "breaker: "+g.tripped)
	}
}

// maxTold is how many failures of one kind are shown; the rest is counted.
const maxTold = 3

// tellTimes counts the failures that look alike and says whether this one is to
// be shown.
func (p *policy) tellTimes(class string, f *worker.Failure) bool {
	key := class + "\x00" + f.Exception + "\x00" + digits.ReplaceAllString(firstLine(f.Message), "#")
	p.told[key]++
	return p.told[key] <= maxTold
}

// digits differ between failures that are alike.
var digits = regexp.MustCompile(`0x[0-9a-fA-F]+|\d+`)

func groupText(name string) string {
	if name == "" {
		return "the op"
	}
	return name
}

// endRung judges the rung that has ended and takes the next one, or stops.
func (p *policy) endRung() {
	if why := p.rungProblem(); why != "" {
		p.stopped = fmt.Sprintf("rung %d of %d did not pass: %s", p.rung, p.total, why)
		p.recorder.note("error", "ramp: "+p.stopped)
		for _, rung := range p.rungs {
			for _, t := range rung {
				p.skip(t, "ramp", p.stopped)
			}
		}
		p.rungs = nil
		return
	}
	p.nextRung()
	p.trim()
}

// rungProblem says why the rung that has just ended fails, or "".
func (p *policy) rungProblem() string {
	if p.rungDone == 0 {
		return ""
	}
	if share := float64(p.rungFails) / float64(p.rungDone); share > p.limits.rampShare {
		return fmt.Sprintf("%d of %d cases failed, more than the %.0f %% that are allowed", p.rungFails, p.rungDone, 100*p.limits.rampShare)
	}
	if p.limits.rampGroup == 0 {
		return ""
	}
	var names []string
	for name, g := range p.groups {
		if g.measured == 0 && g.failures >= p.limits.rampGroup {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	g := p.groups[names[0]]
	return fmt.Sprintf("all %d cases of %s failed; the last time: %s", g.failures, groupText(names[0]), g.last)
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
