package comm

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"aicplan/cudaops/driver"
)

// threads starts ranks in this process, each on a separate operating system thread.
type threads struct {
	node    *Node
	devices []driver.Device // by rank
	pin     bool
	gate    atomic.Pointer[barrier] // barrier of the running task
}

func threadCrew(node *Node, devices []driver.Device, limit float64, pin bool) *crew {
	h := &threads{node: node, devices: devices, pin: pin}
	c := newCrew(h.hire, limit)
	c.begin = func(t task) {
		n := 0
		for i := range t.Ranks {
			if t.takesPart(i) {
				n++
			}
		}
		h.gate.Store(&barrier{size: int32(n)})
	}

	return c
}

func (h *threads) hire(_ context.Context, no int) (member, error) {
	m := &thread{
		rank: &rank{node: h.node, no: no, device: h.devices[no], pin: h.pin,
			meet: func(r *rank) error { return h.gate.Load().wait(r) }},
		jobs: make(chan threadJob, 1),
	}

	ready := make(chan error)
	go m.work(ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	return m, nil
}

type threadJob struct {
	t   task
	out chan<- outcome
}

type thread struct {
	rank *rank
	jobs chan threadJob
	once sync.Once
}

func (m *thread) work(ready chan<- error) {
	// The device's context is current on this thread for the lifetime of the rank.
	runtime.LockOSThread()
	if err := m.rank.open(); err != nil {
		ready <- err
		return
	}

	ready <- nil
	for {
		j, ok := m.next()
		if !ok {
			return
		}
		rep, err := m.rank.do(j.t)
		j.out <- outcome{m.rank.no, rep, err}
	}
}

// awake is how long a thread polls for its next task before it sleeps. A sleeping thread and its core need
// time to return to full speed, and all ranks wait for the slowest.
const awake = time.Millisecond

// roomy reports whether the machine has enough CPUs for threads that poll.
func roomy() bool { return runtime.NumCPU() >= 16 }

func (m *thread) next() (threadJob, bool) {
	if roomy() {
		for began := time.Now(); time.Since(began) < awake; {
			select {
			case j, ok := <-m.jobs:
				return j, ok
			default:
			}
		}
	}

	j, ok := <-m.jobs
	return j, ok
}

func (m *thread) start(t task, out chan<- outcome) {
	m.rank.arm()
	m.jobs <- threadJob{t, out}
}

func (m *thread) cancel() { m.rank.cancel() }

func (m *thread) rescue(ranks int) error { return m.rank.rescue(ranks) }

func (m *thread) end() { m.once.Do(func() { close(m.jobs) }) }

// barrier synchronizes the threads of one task, once. The threads spin, because waking from a sleep would
// take different times and the measured time starts here.
type barrier struct {
	size    int32
	arrived atomic.Int32
}

// spins is how often a thread polls before it yields.
const spins = 20000

func (b *barrier) wait(r *rank) error {
	b.arrived.Add(1)
	limit := spins
	if !roomy() {
		limit = 0
	}

	for i := 0; b.arrived.Load() < b.size; i++ {
		if r.stop.Load() {
			return errCancelled
		}
		if i >= limit {
			runtime.Gosched()
		}
	}

	return nil
}
