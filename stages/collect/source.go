package collect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages/collect/policy"
	"aicplan/stages/collect/rows"
)

// source provides the pool with the open cases in the order of the schedule, and stores what comes back. It implements
// worker.CaseSource.
type source struct {
	run      *running
	job      *job
	keeper   *keeper
	schedule *policy.Schedule
	retries  []*worker.Task

	repeatsShown bool // a warning about repeated rows was shown
	samples      map[string]*slotSample
	examples     []int32 // the case that stands for the kind of each case
}

var _ worker.CaseSource = (*source)(nil)

// attempt is what the source keeps with a task in the pool.
type attempt struct {
	task  int
	units []int              // without a result
	tries map[string]int     // retries so far, by reason
	kept  bool               // a failed try has returned rows
	files []stage.Attachment // of the last try
}

// newSource returns a source for the open tasks of the job in the given order. earlier are durations of earlier cases
// in seconds.
func newSource(r *running, order []int, earlier []float64, k *keeper) *source {
	s := &source{run: r, job: r.job, keeper: k, samples: map[string]*slotSample{}}
	s.schedule = policy.NewSchedule(&r.limits, policy.Cases{
		Order: order, Group: r.job.groupOf, Groups: r.job.groups, Past: r.job.past(), Seconds: earlier,
		Note: r.message,
		Skip: func(task int, class, reason string) {
			why := &skip{class, reason}
			for _, u := range r.job.openUnits(task) {
				r.job.units[u].skip(why)
			}
		},
	}, r.rc.Options.Seed)
	return s
}

// stopping reports whether no further case is tried.
func (s *source) stopping() bool {
	return s.run.rc.Stopped() || s.keeper.broken.Load() || s.run.refusal != nil
}

// Pending implements worker.CaseSource.
func (s *source) Pending() int {
	if s.stopping() {
		return 0
	}
	return s.schedule.Pending() + len(s.retries)
}

// Next implements worker.CaseSource.
func (s *source) Next() *worker.Task {
	if s.Pending() == 0 {
		return nil
	}

	if len(s.retries) > 0 {
		t := s.retries[0]
		s.retries = s.retries[1:]
		t.Deadline = s.schedule.Deadlines.Next()
		return t
	}

	no := s.schedule.Next()
	a := &attempt{task: no, units: s.job.openUnits(no), tries: map[string]int{}}
	cases := s.job.cases
	c := worker.Case{ID: cases.ID(no), Op: s.run.planned.op(), Params: cases.ParamsJSON(no), Sweep: s.sweep(a),
		Example: s.example(no), Attempt: 1}
	return &worker.Task{Deadline: s.schedule.Deadlines.Next(), Data: a, Case: c}
}

// sweep returns the points of a case that are still open, as JSON. It returns nil for cases that do not sweep.
func (s *source) sweep(a *attempt) json.RawMessage {
	var points []int
	for _, u := range a.units {
		points = append(points, int(s.job.units[u].point))
	}
	return s.job.sweepOf(a.task).json(points)
}

// Done implements worker.CaseSource. It stores the results of a case, or schedules a retry. If the worker does not
// measure what the journal is for, or a file of the case cannot be stored, the case stays open.
func (s *source) Done(o worker.Outcome) {
	r := s.run
	if r.refusal == nil {
		r.refusal = r.unlike(&o, s.keeper)
	}
	if r.refusal != nil || r.part.endedByScheduler(&o) {
		return
	}

	files, err := r.attach(o)
	if r.watching != nil && err == nil {
		var recorded []stage.Attachment
		recorded, err = r.observe(&o)
		files = append(files, recorded...)
	}
	if err != nil {
		s.keeper.lost(err)
		return
	}
	s.sample(o)
	if r.part != nil {
		r.part.mark(&o)
	}

	o.Task.Data.(*attempt).files = files
	s.end(o)
	if r.part == nil && (o.Failure == nil || s.keeper.kept.Load()) {
		// Remember now, not at the end, so that the plan after a killed run counts the rows.
		r.remember()
	}
}

// end stores the results of a case, or schedules a retry.
func (s *source) end(o worker.Outcome) {
	a := o.Task.Data.(*attempt)
	failure := o.Failure
	var got answer
	if failure == nil || len(o.Rows) > 0 {
		var bad *worker.Failure
		switch got, bad = s.job.judge(a.units, o.Rows); {
		case bad == nil:
			s.store(o, a, got)
			if len(a.units) == 0 {
				s.schedule.End(a.task, "", false)
				return
			}
			failure = cmp.Or(failure, got.faults[a.units[0]])
		case failure == nil:
			failure = bad
		default:
			s.warn(o, "the %d rows from before the error cannot be used: %s", len(o.Rows), bad.Message)
			got = answer{}
		}
	}

	class, oom := policy.Classify(s.run.rules, failure)
	why := s.run.limits.Retry(class, oom, o.Cause, a.tries)
	if o.Example && o.Task.Case.Example != nil { // the case has not failed, and others run without the example
		at := s.examples[a.task]
		for i := range s.examples {
			if s.examples[i] == at {
				s.examples[i] = -1
			}
		}
		why = "its example failed"
	}
	switch {
	case why == "":
		s.fail(o, a, failure, class, got.faults)
	case !s.stopping(): // otherwise the case counts as interrupted
		s.retry(o, a, why, oom)
		s.run.message("debug", "case %s is tried again (%s): %s", o.Task.Case.ID, why,
			firstLine(failure.Message))
	}
}

func (s *source) retry(o worker.Outcome, a *attempt, why string, fresh bool) {
	a.tries[why]++
	again := *o.Task
	again.Case.Attempt++
	again.Case.Sweep, again.Case.Example = s.sweep(a), s.example(a.task)
	again.Fresh = fresh
	s.retries = append(s.retries, &again)
}

func entryOf(o worker.Outcome, a *attempt) rows.Entry {
	at := o.Started
	if at.IsZero() {
		at = o.Ended
	}
	e := rows.Entry{Attempts: o.Task.Case.Attempt, Worker: o.Slot, Seconds: o.Seconds, First: o.Fresh,
		At: at.UTC().Format(time.RFC3339Nano), Attachments: a.files}
	if o.Hello != nil {
		e.DeviceUUID = o.Hello.DeviceUUID
	}
	return e
}

// warn shows a warning about a case.
func (s *source) warn(o worker.Outcome, format string, args ...any) {
	s.run.message("warn", "case %s: %s", o.Task.Case.ID, fmt.Sprintf(format, args...))
}

// store stores the rows of a case, also of one that failed: collectors that sweep return the points that work and
// raise an error at the end. Units without a result remain in a.units: those with invalid rows and, if the case failed,
// those without rows.
func (s *source) store(o worker.Outcome, a *attempt, got answer) {
	if got.dropped > 0 {
		s.warn(o, "dropped %s of points that were not requested", textutil.Counted(got.dropped, "row"))
	}
	if got.repeated > 0 && !s.repeatsShown {
		s.repeatsShown = true // every case of the grid may repeat rows
		s.warn(
			o,
			"%d of its rows are those of another one in every column; readers see one of them, and check \"duplicates\" of a "+
				"gate counts them",
			got.repeated,
		)
	}

	most := 0
	for _, all := range got.rows {
		most = max(most, len(all))
	}
	// The worker did not report the last point as complete.
	if o.Failure != nil && o.Cause != worker.CauseReported && len(got.rows[got.last]) < most {
		delete(got.rows, got.last)
	}

	var left []int
	fewer := 0
	for _, u := range a.units {
		e := entryOf(o, a)
		e.Points, e.Rows = len(a.units), got.rows[u]
		switch {
		case len(e.Rows) > 0:
			if len(e.Rows) < most {
				fewer++
			}
		case o.Failure == nil && got.faults[u] == nil:
			e.Failure = &worker.Failure{Class: worker.ClassUnsupportedConfig, Exception: "NoRow",
				Message: "the op returned no row for this point"}
		default:
			left = append(left, u)
			continue
		}
		s.keeper.settle(u, &e)
	}

	stored := len(a.units) - len(left)
	if stored == 0 {
		return
	}
	if o.Failure != nil && (len(left) == 0 || fewer > 0) {
		s.warn(o, "it failed after %d of %d points, which are kept; %d of them have fewer rows than the others: %s",
			stored, len(a.units), fewer, firstLine(o.Failure.Message))
	}

	a.units, a.kept = left, a.kept || len(left) > 0
	s.schedule.Measured(a.task, o.Seconds)
}

// fail stores the failure of a case. A unit with an entry in faults fails with that failure instead.
func (s *source) fail(o worker.Outcome, a *attempt, f *worker.Failure, class string,
	faults map[int]*worker.Failure) {
	for _, u := range a.units {
		e := entryOf(o, a)
		e.Failure = cmp.Or(faults[u], f)
		s.keeper.settle(u, &e)
	}

	s.keeper.failed(o.Task.Case, class, f)
	s.schedule.End(a.task, cmp.Or(firstLine(f.Message), class), a.kept)
}

// digits matches numbers, which may differ between similar messages.
var digits = regexp.MustCompile(`0x[0-9a-fA-F]+|\d+`)

// sampleEvery is the minimum interval between sample events of a worker. They are for watching a run; the rows are in
// the journal.
const sampleEvery = 5 * time.Second

// slotSample is the sampling state of a worker.
type slotSample struct {
	at    time.Time // of its last sample event
	cases int       // that it has ended
}

// sample emits an event with the metrics of a row and the number of cases that the worker has ended, at most once per
// sampleEvery and worker.
func (s *source) sample(o worker.Outcome) {
	last := s.samples[o.Slot]
	if last == nil {
		last = &slotSample{}
		s.samples[o.Slot] = last
	}

	last.cases++
	if o.Failure != nil || len(o.Rows) == 0 || time.Since(last.at) < sampleEvery {
		return
	}

	last.at = time.Now()
	metrics := map[string]any{}
	for name, v := range o.Rows[0] {
		if n, ok := v.(json.Number); ok {
			metrics[name] = n
		}
	}
	fields := map[string]any{"worker": o.Slot, "cases": last.cases, "case_id": o.Task.Case.ID, "op": o.Task.Case.Op,
		"params": o.Task.Case.Params, "metrics": metrics}
	if o.Hello != nil && o.Hello.DeviceUUID != "" {
		fields["device_uuid"] = o.Hello.DeviceUUID
	}
	s.run.rc.Events.Emit(s.run.rc.Address, "sample", fields)
}
