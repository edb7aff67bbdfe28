package worker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

const (
	// maxFails is the maximum number of consecutive failed starts of a slot.
	maxFails = 3
	// maxUnblamed is how many workers may be lost that hold a task and for which it cannot be
	// blamed. Then the task fails.
	maxUnblamed = 3
	// maxRows limits the rows that a case may send before its end.
	maxRows = 1 << 17
	// killPatience is how long a killed process may take to end. One that takes longer is stuck
	// in the kernel, and its slot is lost.
	killPatience = 30 * time.Second
)

// run is one run of a pool over a source. Its methods are called from the goroutine of loop.
type run struct {
	*Pool
	ctx   context.Context
	set   Settings
	src   CaseSource
	queue []*Task // returned from lost workers
	fresh []*Task // waiting for a new process
	timer *time.Timer

	ended int       // cases
	first time.Time // when the first one ended
}

// loop runs until finished returns true.
func (r *run) loop(finished func(*run) bool) error {
	wake := r.set.Wake
	for {
		r.fill()
		if finished(r) {
			return nil
		}

		if err := r.stuck(); err != nil {
			return err
		}

		r.setTimer()
		select {
		case ev := <-r.events:
			r.handle(ev)
		case <-r.timer.C:
			r.expire(time.Now())
		case <-wake:
			wake = nil
		case <-r.ctx.Done():
			r.abandon()
			return r.ctx.Err()
		}
	}
}

// idle reports whether no task is pending or running.
func (r *run) idle() bool {
	return !r.waiting() && !slices.ContainsFunc(r.slots, func(s *slot) bool { return len(s.held) > 0 })
}

// stuck returns an error if every slot gave up.
func (r *run) stuck() error {
	errs := []error{}
	for _, s := range r.slots {
		if s.state != slotDead {
			return nil
		}

		errs = append(errs, s.lastErr)
	}

	return fmt.Errorf("%w: %w", ErrNoWorkers, errors.Join(errs...))
}

// next returns a task that any worker may run, or nil.
func (r *run) next() *Task {
	if len(r.queue) > 0 {
		t := r.queue[0]
		r.queue = r.queue[1:]
		return t
	}

	for {
		t := r.src.Next()
		if t == nil || !t.Fresh {
			return t
		}

		// Starting a process is expensive, so cases that need a new one run last.
		r.fresh = append(r.fresh, t)
	}
}

// waiting reports whether tasks are waiting for a worker.
func (r *run) waiting() bool { return len(r.queue)+len(r.fresh) > 0 || r.src.Pending() > 0 }

// fill gives tasks to workers that have room and starts the workers that are needed.
func (r *run) fill() {
	now := time.Now()
	share := r.share()
	behind := slices.ContainsFunc(r.slots, (*slot).empty)
	for no, s := range r.slots {
		if r.taken(s) || s.state != slotUp || (len(s.held) == 0 && !r.configure(no)) {
			continue
		}
		for s.state == slotUp && s.recycle == "" && s.hasRoom(share, behind) {
			t := r.next()
			if t == nil {
				break
			}
			r.give(s, t, now)
		}
	}

	r.fillFresh(now)
	r.startSlots()
	r.report()
}

// report notifies the instruments of workers that began to wait or were given cases. Workers that have cases come first:
// once none has one, the instrument measures.
func (r *run) report() {
	for _, have := range []bool{true, false} {
		for _, s := range r.slots {
			if s.reports && s.unbegun() > 0 == have {
				s.reports = false
				s.proc.measurer.Given(s.wait, s.unbegun())
			}
		}
	}
}

// hasRoom reports whether a worker may get one more case. A worker with a limit of cases that it
// has not started takes more than its share if the others are slower, but not while one of them has no case
// yet: the first case of a worker takes long, and the first cases of all workers belong in the same sample.
func (s *slot) hasRoom(share int, behind bool) bool {
	hello := s.proc.Hello
	if hello.Ahead == 0 {
		return len(s.held) < min(hello.Window, share)
	}
	if behind && len(s.held) >= share {
		return false
	}

	return len(s.held) < hello.Window && s.unbegun() < hello.Ahead
}

// unbegun returns how many cases the worker holds that it has not begun.
func (s *slot) unbegun() (n int) {
	for _, f := range s.held {
		if f.startNo == 0 {
			n++
		}
	}
	return n
}

// empty reports whether a worker can take a case, now or once it is up, and has none.
func (s *slot) empty() bool {
	return s.state == slotStarting || s.state == slotUp && s.recycle == "" && len(s.held) == 0
}

// share returns how many cases each worker holds if all have the same number, so that a
// worker with a large window leaves cases to the others.
func (r *run) share() int {
	cases, slots := len(r.queue)+r.src.Pending(), 0
	for _, s := range r.slots {
		cases += len(s.held)
		if s.state != slotDead && !(s.Late && s.state == slotOff) {
			slots++
		}
	}

	return (cases + slots - 1) / max(slots, 1)
}

// startSlots starts workers for the waiting tasks.
func (r *run) startSlots() {
	waiting := len(r.queue) + r.src.Pending()
	for _, s := range r.slots {
		if s.empty() {
			waiting--
		}
	}

	late := r.late(waiting)
	for no, s := range r.slots {
		if s.state == slotOff && waiting > 0 && !r.taken(s) && (late || !s.Late) {
			waiting--
			r.launch(no)
		}
	}
}

// late reports whether Late slots get workers: the waiting cases would take the others LateAfter at the rate of
// this run, or no other slot can have a worker. If the others have reported why not, Late slots gave up with them.
func (r *run) late(waiting int) bool {
	if r.onlyLate() {
		return true
	}
	if r.ended < 2*len(r.slots) {
		return false // the first ones include imports and compiling
	}
	each := time.Since(r.first) / time.Duration(r.ended)
	return time.Duration(waiting)*each > r.spec.LateAfter
}

// onlyLate reports whether all slots but Late ones gave up.
func (r *run) onlyLate() bool {
	return !slices.ContainsFunc(r.slots, func(s *slot) bool { return !s.Late && s.state != slotDead })
}

// taken reports whether the device of s, or s itself, is in use by a task that requires it for itself.
func (r *run) taken(s *slot) bool {
	for _, o := range r.slots {
		if len(o.held) > 0 && o.held[0].task.Fresh && (o == s || o.Device == s.Device && s.Device >= 0) {
			return true
		}
	}
	return false
}

// configure prepares an idle worker for the next case. It drains a worker that is to be
// recycled, and applies this run's settings. It reports whether the worker can be used.
func (r *run) configure(no int) bool {
	s := r.slots[no]
	if s.recycle == "" && !sameSettings(s.set, r.set) {
		if !s.proc.Hello.Configure {
			s.recycle = "other settings"
		} else if r.waiting() {
			if err := s.proc.Configure(r.set.Configure); err != nil {
				s.recycle = err.Error()
			}

			s.set, s.code = r.set, nil
		}
	}

	if s.recycle == "" {
		return true
	}

	if r.waiting() {
		r.drain(s)
	}

	return false
}

func sameSettings(a, b Settings) bool { return reflect.DeepEqual(a.Configure, b.Configure) }

// drain asks a worker to end.
func (r *run) drain(s *slot) {
	r.set.Log(s.Name, "debug", "replacing the worker: "+s.recycle)
	if s.proc.Shutdown() != nil {
		r.kill(s, "it does not read its shutdown message")
		return
	}

	s.state = slotDraining
	s.deadline = time.Now().Add(r.spec.ShutdownGrace)
}

// fillFresh places tasks that need a new process, once no other tasks are waiting or running. Only the first usable
// slot of a device runs them; the others end.
func (r *run) fillFresh(now time.Time) {
	busy := slices.ContainsFunc(r.slots, func(s *slot) bool { return len(s.held) > 0 && !s.held[0].task.Fresh })
	if busy || len(r.queue) > 0 || r.src.Pending() > 0 {
		return
	}

	left := len(r.fresh)
	used := map[int]bool{} // devices
	for no, s := range r.slots {
		if left == 0 || s.state == slotDead || used[s.Device] {
			continue
		}
		used[s.Device] = s.Device >= 0
		if len(s.held) > 0 {
			continue
		}

		left--
		alone := r.alone(s)
		switch {
		case s.state == slotUp && (s.ran > 0 || !s.cleaned):
			s.recycle = "a case requires a new process"
			r.drain(s)
		case !alone:
		case s.state == slotUp:
			t := r.fresh[0]
			r.fresh = r.fresh[1:]
			r.give(s, t, now)
		case s.state == slotOff:
			s.dirty = true
			r.launch(no)
		}
	}
}

// alone drains the other workers on the device of s and reports whether they have ended.
func (r *run) alone(s *slot) bool {
	ok := true
	for _, o := range r.slots {
		if o == s || o.Device != s.Device || s.Device < 0 || o.state == slotOff || o.state == slotDead {
			continue
		}

		ok = false
		if o.state == slotUp {
			o.recycle = "a case requires the device for itself"
			r.drain(o)
		}
	}
	return ok
}

// give sends a task to a worker.
func (r *run) give(s *slot, t *Task, now time.Time) {
	r.seq++
	f := &flight{task: t, seq: r.seq}
	c := t.Case
	c.Seq = f.seq
	if err := s.proc.Send(c); err != nil {
		s.held = append(s.held, f)
		r.requeue(s, false)
		r.kill(s, err.Error())
		return
	}

	s.held = append(s.held, f)
	s.reports = s.waits
	if len(s.held) == 1 {
		s.arm(now)
	}
}

func (r *run) launch(no int) {
	s := r.slots[no]
	clean := s.dirty
	s.state, s.set, s.life = slotStarting, r.set, life{cleaned: clean}
	r.start(no, r.set, clean)
}

// kill kills a worker. Its tasks must have been requeued or have failed.
func (r *run) kill(s *slot, why string) {
	s.proc.Kill(why)
	s.state, s.dirty = slotKilling, true
	s.deadline = time.Now().Add(killPatience)
}

// requeue returns the tasks of a lost worker to the queue. They lose no attempt. If counted is true, the first task
// counts the death of its worker, up to maxUnblamed.
func (r *run) requeue(s *slot, counted bool) {
	var back []*Task
	for i, f := range s.held {
		if counted && i == 0 && f.startNo == 0 {
			f.task.unblamed++
		}
		if f.task.Fresh {
			r.fresh = append(r.fresh, f.task)
		} else {
			back = append(back, f.task)
		}
	}
	s.held = nil
	r.queue = append(back, r.queue...)
}

// abandon kills every worker and drops their tasks.
func (r *run) abandon() {
	for _, s := range r.slots {
		s.held = nil
		if s.state == slotUp || s.state == slotDraining {
			r.kill(s, "the run was cancelled")
		}
	}
}

// setTimer sets the timer to the earliest deadline of a slot.
func (r *run) setTimer() {
	var first time.Time
	for _, s := range r.slots {
		if d := s.deadline; !d.IsZero() && (first.IsZero() || d.Before(first)) {
			first = d
		}
	}

	if first.IsZero() {
		r.timer.Stop()
		return
	}

	r.timer.Reset(time.Until(first))
}

type slotState int

const (
	slotOff      slotState = iota // no process
	slotStarting                  // waiting for hello
	slotUp                        // accepts cases
	slotDraining                  // asked to end, accepts no more cases
	slotKilling                   // killed, waiting for its end
	slotDead                      // given up for this run
)

// flight is a task that a worker holds.
type flight struct {
	task    *Task
	seq     int64
	started time.Time // of the last start
	startNo int       // order of starts; 0 if not started
	rows    []Row     // received before its end
	example bool      // its worker runs the example of the case
}

// slot is the state of a Slot.
type slot struct {
	Slot
	state slotState
	proc  *Process
	set   Settings // that proc received last
	held  []*flight
	life
	fails    int // consecutive failed starts and deaths without a case
	everUp   bool
	lastErr  error
	deadline time.Time // of the current case or of the shutdown; zero means none
}

// life is the state of a slot that ends with its process.
type life struct {
	code    map[string]*Code // that the process has reported, by op
	ran     int              // cases that it has ended
	starts  int
	baseRSS int64
	cleaned bool   // the device was clean when it started
	dirty   bool   // it was killed or died
	recycle string // why it gets no more cases, or ""
	bye     string // why it requests a new process

	// waits is true while the worker waits for the instrument of its device. No deadline
	// applies then. reports is true until the instrument knows what the worker has been given;
	// wait is the number of the last wait.
	waits, reports bool
	wait           int
}

// find returns the held task with a seq, or nil.
func (s *slot) find(seq int64) *flight {
	for _, f := range s.held {
		if f.seq == seq {
			return f
		}
	}

	return nil
}

// current returns the held task that was started last, or nil.
func (s *slot) current() *flight {
	var last *flight
	for _, f := range s.held {
		if f.startNo > 0 && (last == nil || f.startNo > last.startNo) {
			last = f
		}
	}

	return last
}

func (s *slot) drop(f *flight) {
	s.held = slices.DeleteFunc(s.held, func(o *flight) bool { return o == f })
}

// arm sets the deadline of the current case, or of the oldest one if none has started.
func (s *slot) arm(now time.Time) {
	s.deadline = time.Time{}
	if len(s.held) == 0 || s.waits {
		return
	}

	f := s.current()
	if f == nil {
		f = s.held[0]
	}

	if f.task.Deadline > 0 {
		s.deadline = now.Add(f.task.Deadline)
	}
}

// maxCrashReport bounds the output of a dead worker in a failure, in bytes.
const maxCrashReport = 16 << 10

// endReason describes the end of a process that ran no case.
func (s *slot) endReason(x Exit) string {
	if s.bye != "" {
		return "it requested a new process: " + s.bye
	}

	return s.deathFailure(x).Message
}

// deathFailure describes the end of a process that had not ended its cases.
func (s *slot) deathFailure(x Exit) Failure {
	f := Failure{Exception: x.Exception, Traceback: clip(strings.TrimSpace(x.Tail), maxCrashReport)}
	switch {
	case x.Exception == "exit status 0":
		f.Message = "the worker process ended with status 0 in the middle of its work"
	case x.Exception == "SIGKILL":
		f.Message = "the worker process was killed by SIGKILL; the kernel does that when memory runs out"
	case strings.HasPrefix(x.Exception, "SIG"), strings.HasPrefix(x.Exception, "signal"):
		f.Message = "the worker process was ended by " + x.Exception
	default:
		f.Message = "the worker process ended with " + x.Exception
	}

	if x.Orphans {
		f.Message += "; processes that it had started were killed"
	}

	return f
}
