package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Slot is a place for one worker: a device or a share of one.
type Slot struct {
	Name   string // "w0"
	Device int    // index in PCI bus order; -1 means none
	Spec   Spec   // the pool sets Slot, Device, Measure, Ops, Blocks, Reads and Seed of Init
	// Late keeps the slot empty until the waiting cases would take the other workers LateAfter.
	Late bool
}

// PoolSpec configures a pool.
type PoolSpec struct {
	Slots []Slot
	// RecycleAfter is the number of cases after which a worker is replaced; 0 means never.
	RecycleAfter int
	// MaxGrowth is the growth of a worker's memory since its first case, in bytes, after
	// which it is replaced; 0 means never.
	MaxGrowth int64
	// CleanDevice, if not nil, is called before a worker starts on a device whose last worker
	// was killed or died, and before a task with Fresh. It waits until the memory of earlier
	// processes is free and returns an error if it stays in use. It may be called
	// concurrently for several slots.
	CleanDevice func(ctx context.Context, s Slot) error
	// LateAfter is from which remaining time on Late slots get workers; 0 means one minute: a framework starts
	// in a third of that, and its first case may compile.
	LateAfter time.Duration
	// ShutdownGrace is how long a worker may take to exit; 0 means 30 s.
	ShutdownGrace time.Duration
}

// Settings are the worker settings of one run.
type Settings struct {
	Configure
	// Log receives lines of workers and of the pool. It is called from the goroutine of Run.
	// Nil drops them.
	Log func(slot, level, text string)
	// Wake makes the pool call the source again when it is closed.
	Wake <-chan struct{}
}

// Task is one attempt at a case.
type Task struct {
	Case Case // the pool sets Seq
	// Deadline is how long the worker may take; 0 means no limit.
	Deadline time.Duration
	// Fresh requires a process that has run no other case, on a device that no other worker
	// of the pool uses.
	Fresh bool
	// Data belongs to the caller.
	Data any

	unblamed int // deaths of its worker that this task was not blamed for
}

// CaseSource provides tasks and receives their outcomes. Its methods are only called from the
// goroutine of Run, so it needs no locks.
type CaseSource interface {
	// Next returns the next task, or nil if there is none now. Done may create new ones.
	Next() *Task
	// Pending returns how many tasks Next could return now. It is 0 if and only if Next would
	// return nil. No more workers than that are started.
	Pending() int
	// Done receives the outcome of a task. It is called exactly once for every task that Next
	// returned, unless Run returns an error.
	Done(Outcome)
}

// Cause is the way in which a task failed.
type Cause int

// The causes.
const (
	CauseNone     Cause = iota // it did not fail
	CauseReported              // the worker reported an error
	CauseDied                  // its process ended
	CauseHung                  // it ran past its deadline
	CauseGarbage               // its worker broke the protocol
)

// Outcome is the end of a task.
type Outcome struct {
	Task *Task
	Rows []Row
	// Attachments are as the worker sent them. Their files are in Spool.
	Attachments []Attachment
	Spool       string
	Seconds     float64 // wall time of the case, from the worker
	Failure     *Failure
	Cause       Cause
	Slot        string
	Hello       *Hello // of its worker
	Code        *Code  // of the op, as the worker has reported it; nil if it has not
	// Example is true if the example of the case has failed, and not the case.
	Example bool
	// Fresh is true if the worker had run no other case.
	Fresh   bool
	Started time.Time // of the last start; zero if it never started
	Ended   time.Time
}

// ErrNoWorkers is wrapped by the error of Run if no worker can be started.
var ErrNoWorkers = errors.New("no worker can be started")

// Pool runs tasks on workers. Workers are kept between runs, because a framework may take half
// a minute to start.
type Pool struct {
	spec   PoolSpec
	ctx    context.Context // of the processes
	cancel context.CancelFunc
	events chan slotEvent
	wg     sync.WaitGroup // forwarders and starters

	mu    sync.Mutex // held by a run
	slots []*slot
	seq   int64
}

// NewPool creates a pool without starting a worker. Its processes are killed when ctx ends.
func NewPool(ctx context.Context, spec PoolSpec) *Pool {
	if spec.ShutdownGrace <= 0 {
		spec.ShutdownGrace = 30 * time.Second
	}
	if spec.LateAfter <= 0 {
		spec.LateAfter = time.Minute
	}

	ctx, cancel := context.WithCancel(ctx)
	p := &Pool{spec: spec, ctx: ctx, cancel: cancel, events: make(chan slotEvent)}
	for _, s := range spec.Slots {
		s.Spec.Init.Slot, s.Spec.Init.Device = s.Name, s.Device
		p.slots = append(p.slots, &slot{Slot: s})
	}

	return p
}

// Run executes the tasks of a source until it has none left. Concurrent runs of a pool wait
// for each other. The error wraps ErrNoWorkers if every slot gave up, or is that of the
// context; then workers are killed, and their tasks have no outcome.
func (p *Pool) Run(ctx context.Context, set Settings, src CaseSource) error {
	return p.run(ctx, set, src, (*run).idle)
}

func (p *Pool) run(ctx context.Context, set Settings, src CaseSource, finished func(*run) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if set.Log == nil {
		set.Log = func(string, string, string) {}
	}

	r := &run{Pool: p, ctx: ctx, set: set, src: src, timer: time.NewTimer(time.Hour)}
	defer r.timer.Stop()
	for _, s := range p.slots {
		// Try slots again that gave up in an earlier run.
		if s.state == slotDead {
			s.state, s.fails, s.lastErr = slotOff, 0, nil
		}
	}

	return r.loop(finished)
}

// Up brings up workers for so many tasks and returns the hello of the first one, so that the caller learns
// where its cases will run before it hands them out. If op is not empty and the worker reports code, Up waits
// for the code of op and returns it. The errors are those of Run.
func (p *Pool) Up(ctx context.Context, set Settings, tasks int, op string) (*Hello, *Code, error) {
	w := &waiter{tasks: tasks}
	var code *Code
	err := p.run(ctx, set, w, func(r *run) bool {
		for _, s := range r.slots {
			if s.state != slotUp || s.recycle != "" || !sameSettings(s.set, r.set) {
				continue
			}
			if code = s.code[op]; code != nil || op == "" || !s.proc.Hello.ReportsCode {
				w.hello = &s.proc.Hello
				return true
			}
		}

		return false
	})
	if err != nil {
		return nil, nil, err
	}
	return w.hello, code, nil
}

// waiter is a source with pending tasks that provides none.
type waiter struct {
	tasks int
	hello *Hello
}

func (w *waiter) Next() *Task  { return nil }
func (w *waiter) Pending() int { return max(w.tasks, 1) }
func (w *waiter) Done(Outcome) { panic("worker: the outcome of a task that was never provided") }

// AtOnce returns how many cases the pool measures at the same time. Workers with an instrument take turns
// on their device.
func (p *Pool) AtOnce() int {
	n, devices := 0, map[int]bool{}
	for _, s := range p.slots {
		if s.Spec.Instrument == nil || s.Device < 0 {
			n++
		} else {
			devices[s.Device] = true
		}
	}
	return n + len(devices)
}

// Close asks all workers to end, kills the remaining ones after the grace period, and waits
// for their end. It does not wait for processes that are stuck in the kernel.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := 0
	for _, s := range p.slots {
		if s.proc != nil {
			open++
			if s.proc.Shutdown() != nil {
				s.proc.Kill("the pool is closed")
			}
		}
	}

	timer := time.NewTimer(p.spec.ShutdownGrace)
	defer timer.Stop()
	for open > 0 {
		select {
		case ev := <-p.events:
			if s := p.slots[ev.slot]; ev.ended && s.proc == ev.proc {
				s.proc, s.state = nil, slotOff
				open--
			}
		case <-timer.C:
			open = 0
		case <-p.ctx.Done():
			open = 0
		}
	}

	p.cancel() // kills the remaining workers
	done := make(chan struct{})
	go func() { p.wg.Wait(); close(done) }()
	go func() {
		for {
			select {
			case <-p.events:
			case <-done:
				return
			}
		}
	}()

	// Do not wait for a process that is stuck in the kernel.
	timer.Reset(killPatience)
	select {
	case <-done:
	case <-timer.C:
	}
}

// slotEvent is an event of a slot. Events are delivered in order.
type slotEvent struct {
	slot  int
	proc  *Process // nil if the start failed or has not ended
	err   error    // of a failed start
	up    bool     // proc has sent its hello
	ended bool     // proc has ended, and this is its last event
	evs   []Event
}

// start starts a process in the background.
func (p *Pool) start(no int, set Settings, clean bool) {
	s := p.slots[no]
	spec := s.Spec
	spec.Init.apply(set.Configure)
	p.wg.Go(func() {
		if clean && p.spec.CleanDevice != nil {
			if err := p.spec.CleanDevice(p.ctx, s.Slot); err != nil {
				p.events <- slotEvent{slot: no, err: fmt.Errorf("worker %s: device %d is not clean: %w", s.Name,
					s.Device, err)}
				return
			}
		}

		spec.Log = func(level, text string) {
			p.events <- slotEvent{slot: no, evs: []Event{{Log: &Log{Level: level, Text: text}}}}
		}

		proc, err := Launch(p.ctx, spec)
		if err != nil {
			p.events <- slotEvent{slot: no, err: err}
			return
		}

		p.events <- slotEvent{slot: no, proc: proc, up: true}
		for batch := range proc.Events() {
			p.events <- slotEvent{slot: no, proc: proc, evs: batch}
		}

		p.events <- slotEvent{slot: no, proc: proc, ended: true}
	})
}
