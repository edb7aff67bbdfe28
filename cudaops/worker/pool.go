package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Slot is one place for a worker: a device, or a share of one.
type Slot struct {
	Name   string // "w0"
	Device int    // index in PCI bus order; -1 for none
	Spec   Spec   // Init.Slot, Device and Measure, Ops, Blocks, Seed are filled in
}

// PoolSpec configures a pool.
type PoolSpec struct {
	Slots []Slot
	// RecycleAfter replaces a worker after so many cases; 0 means never.
	RecycleAfter int
	// MaxGrowth replaces a worker whose memory has grown by so many bytes since
	// its first case; 0 means never.
	MaxGrowth int64
	// CleanDevice is called before a worker starts on a device whose last worker
	// was killed or died, and before a task that wants a clean device. It waits
	// for leftovers to go and fails when they stay. Several slots may be looked
	// at side by side. Nil means that there is nothing to check.
	CleanDevice func(ctx context.Context, s Slot) error
	// ShutdownGrace is how long a worker may take to end by itself; 0 means 30 s.
	ShutdownGrace time.Duration
}

// Settings are what workers need to know about the cases of one run.
type Settings struct {
	Measure json.RawMessage
	Ops     json.RawMessage
	Blocks  json.RawMessage
	Reads   []Read
	Seed    int64
	// Log receives lines of workers and of the pool; nil drops them. It is
	// called from the goroutine of Run.
	Log func(slot, level, text string)
	// Wake has the pool ask the source again when it is closed: whoever closes
	// it has made the source stop.
	Wake <-chan struct{}
}

// Task is one attempt at a case.
type Task struct {
	Case Case // Seq is the pool's
	// Deadline is how long the worker may be busy with it; 0 means no limit.
	Deadline time.Duration
	// Fresh asks for a process that has run nothing yet, on a device that no
	// other worker of the pool uses.
	Fresh bool
	// Data is the caller's.
	Data any

	unblamed int // deaths of its worker before anything was started
}

// CaseSource hands out tasks and takes their ends. Its methods are called from the
// goroutine of Run only, so that it needs no locks.
type CaseSource interface {
	// Next returns the next task, or nil when there is none now; Done may make
	// new ones.
	Next() *Task
	// Pending says how many tasks Next could return now; it is 0 exactly when
	// Next would return nil. Workers are started for no more than that.
	Pending() int
	// Done takes the end of a task. Every task that Next returned ends exactly
	// once, unless Run returns an error.
	Done(Outcome)
}

// Cause says how a task failed.
type Cause int

// The causes.
const (
	CauseNone     Cause = iota // it did not fail
	CauseReported              // the worker said so
	CauseDied                  // its process ended
	CauseHung                  // it ran past its deadline
	CauseGarbage               // its worker broke the protocol
)

// Outcome is the end of a task.
type Outcome struct {
	Task *Task
	Rows []Row
	// Attachments are as the worker sent them; their files lie in its spool.
	Attachments []Attachment
	Spool       string
	Seconds     float64 // wall time of the case, as the worker saw it
	Failure     *Failure
	Cause       Cause
	Slot        string
	Hello       *Hello // of the worker that had it
	// Fresh is true when the worker had run nothing before.
	Fresh   bool
	Started time.Time // of the last start; zero when it never started
	Ended   time.Time
}

// ErrNoWorkers is wrapped by the error of Run when no worker can be started.
var ErrNoWorkers = errors.New("no worker can be started")

// Pool runs tasks on workers. Workers stay between runs, so that a framework
// that takes half a minute to start is started once.
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

// NewPool makes a pool without starting anything. Processes end with ctx.
func NewPool(ctx context.Context, spec PoolSpec) *Pool {
	if spec.ShutdownGrace <= 0 {
		spec.ShutdownGrace = 30 * time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Pool{spec: spec, ctx: ctx, cancel: cancel, events: make(chan slotEvent)}
	for _, s := range spec.Slots {
		s.Spec.Init.Slot, s.Spec.Init.Device = s.Name, s.Device
		p.slots = append(p.slots, &slot{Slot: s})
	}
	return p
}

// Run works through a source until it has nothing left. Runs of one pool take
// turns. The error wraps ErrNoWorkers when every slot gave up, or is the
// context's: workers are killed then and what they held has no end.
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
		// A slot that gave up in an earlier run gets another chance.
		if s.state == slotDead {
			s.state, s.fails, s.lastErr = slotOff, 0, nil
		}
	}
	return r.loop(finished)
}

// Up brings up workers for so many tasks and returns the hello of the first
// one, so that the caller learns where its cases will run before it hands them
// out. The errors are those of Run.
func (p *Pool) Up(ctx context.Context, set Settings, tasks int) (*Hello, error) {
	w := &waiter{tasks: tasks}
	if err := p.run(ctx, set, w, func(r *run) bool {
		for _, s := range r.slots {
			if s.state == slotUp && s.recycle == "" && sameSettings(s.set, r.set) {
				w.hello = &s.proc.Hello
				return true
			}
		}
		return false
	}); err != nil {
		return nil, err
	}
	return w.hello, nil
}

// waiter is a source that has work and hands none out.
type waiter struct {
	tasks int
	hello *Hello
}

func (w *waiter) Next() *Task  { return nil }
func (w *waiter) Pending() int { return max(w.tasks, 1) }
func (w *waiter) Done(Outcome) { panic("worker: an end of a task that was never handed out") }

// Slots says how many workers the pool can have.
func (p *Pool) Slots() int { return len(p.slots) }

// Close ends all workers, politely at first, and waits until they are gone, or
// until it is clear that the kernel does not let them go.
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
	p.cancel() // kills what is left
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
	// A process that is stuck in the kernel cannot be waited for.
	timer.Reset(killPatience)
	select {
	case <-done:
	case <-timer.C:
	}
}

// slotEvent is what happens on a slot, in the order it happens.
type slotEvent struct {
	slot  int
	proc  *Process // nil for a start that failed or has not ended
	err   error    // of a failed start
	up    bool     // proc has said hello
	ended bool     // proc is gone; nothing more comes from it
	evs   []Event
}

// start brings up a process in the background.
func (p *Pool) start(no int, set Settings, clean bool) {
	s := p.slots[no]
	spec := s.Spec
	spec.Init.Measure, spec.Init.Ops, spec.Init.Blocks, spec.Init.Reads, spec.Init.Seed = set.Measure, set.Ops, set.Blocks, set.Reads, set.Seed
	p.wg.Go(func() {
		if clean && p.spec.CleanDevice != nil {
			if err := p.spec.CleanDevice(p.ctx, s.Slot); err != nil {
				p.events <- slotEvent{slot: no, err: fmt.Errorf("worker %s: device %d is not clean: %w", s.Name, s.Device, err)}
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
		for batch := range proc.events {
			p.events <- slotEvent{slot: no, proc: proc, evs: batch}
		}
		p.events <- slotEvent{slot: no, proc: proc, ended: true}
	})
}
