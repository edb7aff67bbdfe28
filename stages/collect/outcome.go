package collect

import (
	"cmp"
	"fmt"
	"regexp"
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
	if failure == nil || len(o.Rows) > 0 {
		var bad *worker.Failure
		switch got, bad = p.job.judge(a.units, o.Rows); {
		case bad == nil:
			p.store(o, a, got)
			if len(a.units) == 0 {
				p.settled(a.task)
				return
			}
			if failure == nil {
				failure = got.faults[a.units[0]]
			}
		case failure == nil:
			failure = bad
		default:
			p.warn(o, "the %d rows from before the error cannot be used: %s", len(o.Rows), bad.Message)
			got = answer{}
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

// warn shows a warning about a case.
func (p *policy) warn(o worker.Outcome, format string, args ...any) {
	p.recorder.note("warn", fmt.Sprintf("case %s: ", o.Task.Case.ID)+fmt.Sprintf(format, args...))
}

// store stores the rows of a case, also of one that failed: collectors that sweep return the points that work and
// raise an error at the end. Units without a result remain in a.units: those with invalid rows and, if the case
// failed, those without rows.
func (p *policy) store(o worker.Outcome, a *attempt, got answer) {
	if got.dropped > 0 {
		p.warn(o, "%d rows of points that were not asked for were dropped", got.dropped)
	}

	if got.repeated > 0 && !p.toldRepeated {
		p.toldRepeated = true // warn once, because every case of the grid may repeat rows
		p.warn(o, "%d of its rows are those of another one in every column; readers see one of them, and check \"duplicates\" of a gate counts them",
			got.repeated)
	}

	most := 0
	for _, all := range got.rows {
		most = max(most, len(all))
	}
	// The worker did not report the last point as complete.
	if o.Failure != nil && o.Cause != worker.CauseReported && len(got.rows[got.last]) < most {
		delete(got.rows, got.last)
	}

	var units, left []int
	var entries []*rows.Entry
	fewer := 0
	for _, u := range a.units {
		e := p.entry(o)
		e.Points, e.Rows = len(a.units), got.rows[u]
		switch {
		case len(e.Rows) > 0:
			p.job.units[u].state = measured
			if len(e.Rows) < most {
				fewer++
			}
		case o.Failure == nil && got.faults[u] == nil:
			e.Failure = &worker.Failure{Class: worker.ClassUnsupportedConfig, Exception: "NoRow",
				Message: "the op returned no row for this point"}
			p.job.units[u].state = failed
		default:
			left = append(left, u)
			continue
		}

		units, entries = append(units, u), append(entries, &e)
	}

	if len(units) == 0 {
		return
	}

	if o.Failure != nil {
		p.kept(o, len(units), len(left), fewer)
	}
	p.learn(o.Seconds)
	p.groups[p.job.group(a.task)].measured++
	if len(left) == 0 {
		p.rungDone++ // otherwise the case is done when its other units have failed
	}

	a.units, a.kept = left, a.kept || len(left) > 0
	p.recorder.settle(units, entries)
}

// kept reports the points that a failed case has measured. fewer of them have fewer rows than the others.
func (p *policy) kept(o worker.Outcome, points, left, fewer int) {
	how := "the op raised"
	switch o.Cause {
	case worker.CauseDied:
		how = "the worker died"
	case worker.CauseHung:
		how = "the worker was ended"
	}

	line := firstLine(o.Failure.Message)
	switch {
	case left == 0:
		p.warn(o, "%s after all its rows, which are kept: %s", how, line)
	case fewer > 0:
		p.warn(o, "%s after %d of %d points, which are kept; %d of them have fewer rows than the others: %s", how,
			points, points+left, fewer, line)
	}
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
