package collect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/stages/collect/rows"
)

// Done implements worker.CaseSource. It stores the results of a case, or schedules a retry.
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
			if p.measured(o, a, got); len(a.units) == 0 {
				p.settled(a.task)
				return
			}
			failure = got.faults[a.units[0]]
		}
	}

	if len(o.Rows) > 0 && o.Failure != nil {
		if got.faults = p.keep(o, a, failure); len(a.units) == 0 {
			p.settled(a.task)
			return
		}
	}

	class, oom := classify(p.rules, failure)
	if why := p.retry(a, o, class, oom); why != "" {
		if p.stopping() {
			return // retries are left, so the case counts as interrupted
		}

		a.tries[why]++
		again := *o.Task
		again.Case.Attempt++
		if again.Case.Sweep != nil {
			again.Case.Sweep = p.sweep(a.task, a.units)
		}

		again.Fresh = oom
		p.again = append(p.again, &again)
		p.recorder.note("debug", fmt.Sprintf("case %s is tried again (%s): %s", o.Task.Case.ID, why,
			firstLine(failure.Message)))

		return
	}

	p.failed(o, a, failure, class, got.faults)
	p.settled(a.task)
}

// retry returns the reason to retry a case, or "" if it is not retried.
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

func (p *policy) entry(o worker.Outcome) rows.Entry {
	e := rows.Entry{Attempts: o.Task.Case.Attempt, Worker: o.Slot, Seconds: o.Seconds,
		At: o.Ended.UTC().Format(time.RFC3339Nano), First: o.Fresh, Attachments: p.attached}

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

// measured stores the rows of a case. Units with invalid rows remain in a.units.
func (p *policy) measured(o worker.Outcome, a *attempt, got answer) {
	p.learn(o.Seconds)
	if got.dropped > 0 {
		p.recorder.note("warn", fmt.Sprintf("case %s: %d rows of points that were not asked for were dropped",
			o.Task.Case.ID, got.dropped))
	}

	if got.repeated > 0 && !p.toldRepeated {
		p.toldRepeated = true // warn once, because every case of the grid may repeat rows
		p.recorder.note("warn", fmt.Sprintf("case %s: %d of its rows are those of another one in every column; readers see one of them, and check \"duplicates\" of a gate counts them",
			o.Task.Case.ID, got.repeated))
	}

	var units, bad []int
	var entries []*rows.Entry
	for _, u := range a.units {
		if got.faults[u] != nil {
			bad = append(bad, u)
			continue
		}

		e := p.entry(o)
		e.Points = len(a.units)
		if e.Rows = got.rows[u]; len(e.Rows) > 0 {
			p.job.units[u].state = measured
		} else {
			e.Failure = &worker.Failure{Class: worker.ClassUnsupportedConfig, Exception: "NoRow",
				Message: "the op returned no row for this point"}
			p.job.units[u].state = failed
		}

		units, entries = append(units, u), append(entries, &e)
	}

	g := p.groups[p.job.group(a.task)]
	g.measured++
	if len(bad) == 0 {
		p.rungDone++ // otherwise the case is done when its bad units have failed
	}

	a.units, a.kept = bad, a.kept || len(bad) > 0
	p.recorder.settle(units, entries)
}

// keep stores the rows that a case returned before it failed. Units without rows remain in a.units.
// Collectors that sweep return the points that work and raise an error at the end. It returns the faults
// of invalid rows, by unit.
func (p *policy) keep(o worker.Outcome, a *attempt, f *worker.Failure) map[int]*worker.Failure {
	note := func(format string, args ...any) {
		p.recorder.note("warn", fmt.Sprintf("case %s: ", o.Task.Case.ID)+fmt.Sprintf(format, args...))
	}

	got, bad := p.job.judge(a.units, o.Rows)
	if bad != nil {
		note("the %d rows from before the error cannot be used: %s", len(o.Rows), bad.Message)
		return nil
	}

	var units []int
	var entries []*rows.Entry
	most, fewer := 0, 0
	for _, u := range a.units {
		most = max(most, len(got.rows[u]))
	}

	how := "the op raised"
	switch o.Cause {
	case worker.CauseDied:
		how = "the worker died"
	case worker.CauseHung:
		how = "the worker was ended"
	}

	// The worker did not report the last point as complete.
	if u := got.last; o.Cause != worker.CauseReported && len(got.rows[u]) > 0 && len(got.rows[u]) < most {
		delete(got.rows, u)
		got.missing = slices.DeleteFunc(slices.Clone(a.units), func(o int) bool { return len(got.rows[o]) > 0 })
	}

	for _, u := range a.units {
		e := p.entry(o)
		e.Points, e.Rows = len(a.units), got.rows[u]
		switch len(e.Rows) {
		case 0:
			continue
		case most:
		default:
			fewer++
		}

		p.job.units[u].state = measured
		units, entries = append(units, u), append(entries, &e)
	}

	if len(units) == 0 {
		return got.faults
	}

	switch {
	case len(got.missing) == 0:
		note("%s after all its rows, which are kept: %s", how, firstLine(f.Message))
	case fewer > 0:
		note("%s after %d of %d points, which are kept; %d of them have fewer rows than the others: %s", how,
			len(units), len(a.units), fewer, firstLine(f.Message))
	}

	p.learn(o.Seconds)
	p.groups[p.job.group(a.task)].measured++
	if !a.kept && len(got.missing) == 0 {
		p.rungDone++
	}

	a.units, a.kept = got.missing, true
	p.recorder.settle(units, entries)
	return got.faults
}

// failed stores the failure of a case and trips its group if the breaker's limit is reached. A unit with
// an entry in faults fails with that failure instead.
func (p *policy) failed(o worker.Outcome, a *attempt, f *worker.Failure, class string, faults map[int]*worker.Failure) {
	var entries []*rows.Entry
	for _, u := range a.units {
		e := p.entry(o)
		e.Failure = cmp.Or(faults[u], f)
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
		p.rungFails++ // a sweep with some measured points is not a failed case
	}

	p.recorder.settle(a.units, entries)
	p.recorder.failed(o.Task.Case, class, f, p.tellTimes(class, f))
	if n := p.limits.tripAfter; n > 0 && g.measured == 0 && g.earlier+g.failures >= n && g.tripped == "" &&
		!p.shared.worked(name) {
		g.tripped = tripText(name, g.earlier+g.failures, g.last)
		p.recorder.note("error", "breaker: "+g.tripped)
	}
}

// maxTold is the number of similar failures that are shown. Further ones are only counted.
const maxTold = 3

// tellTimes counts similar failures and reports whether this one is shown.
func (p *policy) tellTimes(class string, f *worker.Failure) bool {
	key := class + "\x00" + f.Exception + "\x00" + digits.ReplaceAllString(firstLine(f.Message), "#")
	p.shownFailures[key]++
	return p.shownFailures[key] <= maxTold
}

// digits matches numbers, which may differ between similar failures.
var digits = regexp.MustCompile(`0x[0-9a-fA-F]+|\d+`)

func groupText(name string) string {
	if name == "" {
		return "the op"
	}
	return name
}
