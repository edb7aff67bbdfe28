package worker

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// handle processes an event of a slot.
func (r *run) handle(e slotEvent) {
	s := r.slots[e.slot]
	now := time.Now()
	switch {
	case e.err != nil:
		r.startFailed(s, e.err)
	case e.up:
		s.proc, s.state, s.everUp = e.proc, slotUp, true
		h := &e.proc.Hello
		r.set.Log(s.Name, "info", fmt.Sprintf("worker up: %s %s on %s, process %d", h.Framework, h.Version, h.Device,
			e.proc.Pid()))
	case e.proc != s.proc:
		// The slot has given this process up and may have another one.
	case e.ended:
		r.processEnded(s)
	}

	for _, ev := range e.evs {
		if e.proc == s.proc {
			r.receive(s, ev, now)
		}
	}
}

// receive processes one message of a worker.
func (r *run) receive(s *slot, ev Event, now time.Time) {
	switch {
	case s.state == slotKilling:
		// Messages of a killed worker are ignored.
	case ev.Garbage != "":
		r.broken(s, ev.Garbage, s.current())
	case ev.Start != nil:
		r.caseStarted(s, ev.Start, now)
	case ev.Rows != nil:
		r.caseRows(s, ev.Rows)
	case ev.Result != nil:
		if f := r.caseEnded(s, ev.Result.Seq, "a result"); f != nil {
			r.done(s, f, Outcome{Rows: ev.Result.Rows, Attachments: ev.Result.Attachments, Seconds: ev.Result.Seconds},
				now)
			r.checkGrowth(s)
		}
	case ev.Error != nil:
		if f := r.caseEnded(s, ev.Error.Seq, "an error"); f != nil {
			failure := ev.Error.Failure
			r.done(s, f, Outcome{Rows: ev.Error.Rows, Attachments: ev.Error.Attachments, Failure: &failure,
				Cause: CauseReported, Seconds: now.Sub(f.started).Seconds()}, now)
			if failure.Fatal {
				r.requeue(s, false)
				r.kill(s, "its context is lost: "+failure.Message)
			}
		}
	case ev.Wait > 0 && s.state == slotUp: // a worker that is asked to end keeps the deadline for that
		s.waits, s.wait, s.reports, s.deadline = true, ev.Wait, true, time.Time{}
	case ev.Code != nil:
		if s.code == nil {
			s.code = map[string]*Code{}
		}
		s.code[ev.Code.Op] = ev.Code
	case ev.Log != nil:
		r.set.Log(s.Name, ev.Log.Level, ev.Log.Text)
	case ev.Bye != nil:
		s.state = slotDraining
		s.deadline = now.Add(r.spec.ShutdownGrace)
		s.bye = ev.Bye.Restart
		if s.bye != "" {
			r.set.Log(s.Name, "info", "restarting the worker: "+s.bye)
		}
	}
}

func (r *run) caseStarted(s *slot, m *Start, now time.Time) {
	f := s.find(m.Seq)
	if f == nil {
		r.broken(s, fmt.Sprintf("a start of case %d, which it was not given", m.Seq), r.blameFor(s, m.Seq))
		return
	}

	if m.Again || m.Example != f.example {
		f.example, f.rows = m.Example, nil // what came before is measured again
	}

	s.starts++
	f.startNo, f.started = s.starts, now
	s.waits = false
	s.arm(now)
}

// caseRows stores rows of a case that has started.
func (r *run) caseRows(s *slot, m *Rows) {
	f := s.find(m.Seq)
	switch {
	case f == nil || f.startNo == 0:
		r.broken(s, fmt.Sprintf("rows of case %d, which it has not started", m.Seq), r.blameFor(s, m.Seq))
	case len(f.rows)+len(m.Rows) > maxRows:
		r.broken(s, fmt.Sprintf("more than %d rows of a case", maxRows), f)
	default:
		f.rows = append(f.rows, m.Rows...)
	}
}

// caseEnded removes a case from its worker. If the worker does not hold the case, it is
// killed, and the result is nil.
func (r *run) caseEnded(s *slot, seq int64, what string) *flight {
	f := s.find(seq)
	if f != nil && f.startNo == 0 && what == "a result" {
		// A process that inherited the descriptor may forge results.
		r.broken(s, fmt.Sprintf("a result of case %d before its start", seq), cmp.Or(s.current(), f))
		return nil
	}
	if f != nil {
		s.drop(f)
		return f
	}

	r.broken(s, fmt.Sprintf("%s of case %d, which it was not given", what, seq), r.blameFor(s, seq))
	return nil
}

// blameFor returns the case to blame for a message about a case that the worker does not
// hold. It is nil if the pool has given out that case: it may have ended, which is no fault
// of the case in work. The case in work is blamed if this happens to it maxUnblamed times.
func (r *run) blameFor(s *slot, seq int64) *flight {
	f := s.current()
	if f == nil && len(s.held) > 0 {
		f = s.held[0]
	}

	if f == nil || seq < 1 || seq > r.seq {
		return f
	}

	if f.task.unblamed++; f.task.unblamed < maxUnblamed {
		return nil
	}

	return f
}

// broken kills a worker that broke the protocol. blamed, if not nil, fails.
func (r *run) broken(s *slot, what string, blamed *flight) {
	r.set.Log(s.Name, "error", "the worker broke the protocol and is replaced: it sent "+what)
	if blamed != nil {
		s.drop(blamed)
		r.done(s, blamed, Outcome{Cause: CauseGarbage, Failure: &Failure{
			Exception: "ProtocolError", Message: "the worker sent " + what,
		}}, time.Now())
	}

	r.requeue(s, false)
	r.kill(s, "it sent "+what)
}

// done passes the end of a task to the source and updates the worker's counters.
func (r *run) done(s *slot, f *flight, o Outcome, now time.Time) {
	o.Task, o.Slot, o.Started, o.Ended = f.task, s.Name, f.started, now
	o.Hello, o.Fresh, o.Spool = &s.proc.Hello, s.ran == 0, s.Spec.Init.Spool
	o.Code, o.Example = s.code[f.task.Case.Op], f.example
	s.ran++
	if r.ended++; r.ended == 1 {
		r.first = now
	}
	if o.Cause == CauseNone || o.Cause == CauseReported {
		s.fails = 0
	}

	s.arm(now)

	if n := r.spec.RecycleAfter; n > 0 && s.ran >= n && s.recycle == "" {
		s.recycle = fmt.Sprintf("it has run %d cases", s.ran)
	}

	r.src.Done(o)
}

// checkGrowth marks a worker for recycling if its memory has grown too much.
func (r *run) checkGrowth(s *slot) {
	if r.spec.MaxGrowth <= 0 || s.recycle != "" || s.proc == nil {
		return
	}

	rss := s.proc.RSS()
	if s.baseRSS == 0 {
		s.baseRSS = rss
		return
	}

	if grown := rss - s.baseRSS; grown > r.spec.MaxGrowth {
		s.recycle = fmt.Sprintf("its memory has grown by %d MiB", grown>>20)
	}
}

// startFailed decides whether a slot is tried again.
func (r *run) startFailed(s *slot, err error) {
	s.state, s.proc, s.lastErr = slotOff, nil, err
	s.fails++
	s.dirty = true
	reported, lasting := false, false
	if sf, ok := errors.AsType[*StartFailure](err); ok {
		reported = sf.Reported || sf.Late
		lasting = sf.Failure.Class == ClassCollectorBug || sf.Failure.Class == ClassUnsupportedConfig
	}

	// A worker that reports a reason will report it again, and one that hangs will hang
	// again. If the slot had a worker before, the device may not be free yet.
	if s.fails >= maxFails || (reported && (lasting || !s.everUp)) {
		s.state = slotDead
		r.set.Log(s.Name, "error", err.Error())
		for _, o := range r.slots {
			if reported && o.state == slotOff && r.onlyLate() {
				o.state = slotDead // it would fail for the same reason, and hang as long
			}
		}
		return
	}

	r.set.Log(s.Name, "warn", err.Error()+"\ntrying again")
}

// processEnded handles the end of a process. The case that was started last fails.
func (r *run) processEnded(s *slot) {
	x := s.proc.Exit()
	wasKilled, asked := s.state == slotKilling, s.state == slotDraining
	if !wasKilled {
		if f := r.blameForEnd(s, asked); f != nil {
			s.drop(f)
			failure := s.deathFailure(x)
			r.done(s, f, Outcome{Rows: f.rows, Failure: &failure, Cause: CauseDied}, time.Now())
		} else if s.ran == 0 && s.recycle == "" {
			s.fails++
			s.lastErr = fmt.Errorf("worker %s ended before it ran a case: %s\n%s", s.Name, s.endReason(x),
				lastLines(x.Tail, 12))
		}

		if !asked {
			s.dirty = true
			r.set.Log(s.Name, "warn", s.deathFailure(x).Message)
		}

		r.requeue(s, !asked)
	}

	s.proc, s.state = nil, slotOff
	s.deadline = time.Time{}
	if s.fails >= maxFails {
		s.state = slotDead
		r.set.Log(s.Name, "error", s.lastErr.Error())
	}
}

// blameForEnd returns the case to blame for the end of a process, or nil. asked is true
// if the process was asked to end.
func (r *run) blameForEnd(s *slot, asked bool) *flight {
	if f := s.current(); f != nil {
		return f
	}

	if !asked && len(s.held) > 0 && s.held[0].task.unblamed+1 >= maxUnblamed {
		return s.held[0]
	}

	return nil
}

// expire handles the slots whose deadline has passed.
func (r *run) expire(now time.Time) {
	for _, s := range r.slots {
		if s.deadline.IsZero() || s.deadline.After(now) {
			continue
		}

		switch s.state {
		case slotUp:
			r.hung(s, now)
		case slotDraining:
			if f := s.current(); f != nil {
				r.hung(s, now)
				continue
			}

			r.requeue(s, false)
			r.kill(s, "it did not end after its shutdown")
		case slotKilling:
			s.lastErr = fmt.Errorf(
				"worker %s (process %d) cannot be killed: it is stuck in the kernel, often in a driver", s.Name,
				s.proc.Pid())
			if s.Spec.Inside != nil {
				s.lastErr = fmt.Errorf("worker %s does not end although it was asked to; this is a mistake in aicplan",
					s.Name)
			}

			r.set.Log(s.Name, "error", s.lastErr.Error())
			s.proc, s.state, s.deadline = nil, slotDead, time.Time{}
		}
	}
}

// hung fails the current case of a worker whose deadline has passed, and kills the worker.
func (r *run) hung(s *slot, now time.Time) {
	f := s.current()
	if f == nil {
		f = s.held[0]
	}

	s.drop(f)
	what := fmt.Sprintf("no end within its deadline of %v", f.task.Deadline)
	if f.startNo == 0 {
		what = fmt.Sprintf("the worker did not start it within its deadline of %v", f.task.Deadline)
	}

	proc := s.proc
	r.done(s, f, Outcome{Rows: f.rows, Cause: CauseHung, Failure: &Failure{
		Class: ClassTimeout, Exception: "Timeout", Message: what,
	}}, now)
	r.requeue(s, false)
	s.state, s.dirty = slotKilling, true
	s.deadline = now.Add(killPatience)
	proc.Quit("case " + f.task.Case.ID + ": " + what)
}
