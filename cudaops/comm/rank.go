package comm

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"aicplan/cudaops/cuda"
	"aicplan/sink/base/proc"
)

// rank runs tasks on one device. Its methods must be called on one operating system thread.
type rank struct {
	libraries func() (*Node, error) // of the rank's process
	node      *Node
	no        int
	device    cuda.Device

	// The rank's thread uses the CPUs core during executions, and free otherwise. core is nil if no core is
	// available, and in the worker's process.
	core, free []int
	pinned     bool

	ctx    cuda.Context
	stream cuda.Stream
	marks  []cuda.Event // events before and after copies

	send, recv  buffer
	tally       cuda.Ptr // two words for the result of the check, followed by scratch memory
	fill, check cuda.Function

	graph graph // of the current case

	stop  atomic.Bool       // set when the worker has closed the connection
	comms map[int]cuda.Comm // by number of ranks
}

const (
	tallyBytes   = 16
	scratchBytes = 4096
	// leastBuffer is the initial size of the send and receive buffers if the device has enough free memory.
	// It fits all published messages, so that buffers registered with other processes for a graph are not
	// reallocated.
	leastBuffer = 512 << 20
	pollEvery   = 1024 // polls between two checks of the communicator
	// betweenPolls is the number of loop iterations that take about a microsecond.
	betweenPolls = 500
)

// graph is a captured task that can be replayed.
type graph struct {
	exec   cuda.GraphExec
	task   task
	events []cuda.Event
}

// buffer is device memory that can grow.
type buffer struct {
	at    cuda.Ptr
	bytes int64
}

// open initializes the device. It must be called on the rank's thread.
func (r *rank) open() error {
	d := r.node.Driver
	info, err := d.Info(r.device)
	if err != nil {
		return err
	}

	if r.ctx, err = d.Primary(r.device); err != nil {
		return err
	}

	if err := d.SetCurrent(r.ctx); err != nil {
		return err
	}

	if r.stream, err = d.NewStream(); err != nil {
		return err
	}

	if r.tally, err = d.Alloc(tallyBytes + scratchBytes); err != nil {
		return err
	}

	if err := d.Memset8(r.tally, 0, tallyBytes+scratchBytes, r.stream); err != nil {
		return err
	}

	if err := d.SyncStream(r.stream); err != nil {
		return err
	}

	image, err := r.node.Compile.Compile(cuda.Program{Name: "pattern.cu", Source: patternSource, SM: info.SM()})
	if err != nil {
		return err
	}

	mod, err := d.LoadModule(image)
	if err != nil {
		return err
	}

	if r.fill, err = d.Function(mod, "comm_fill"); err != nil {
		return err
	}

	if r.check, err = d.Function(mod, "comm_check"); err != nil {
		return err
	}

	r.comms = map[int]cuda.Comm{}
	return nil
}

var (
	errCancelled = errors.New("the worker has closed the connection")
	errHung      = errors.New("did not finish")
)

// do runs a task and classifies its error.
func (r *rank) do(t task) (report, *rankError) {
	rep, err := r.perform(t)
	if err == nil {
		return rep, nil
	}

	how := failError
	switch {
	case errors.Is(err, errHung):
		how = failHang
	case cuda.OutOfMemory(err):
		how = failMemory
	}

	return rep, &rankError{Rank: r.no, How: how, Err: err}
}

func (r *rank) perform(t task) (report, error) {
	r.settle(t)
	switch t.Kind {
	case taskOpen:
		return r.start(t)

	case taskReserve:
		return report{}, r.reserve(t)

	case taskID:
		id, err := r.node.NCCL.UniqueID()
		return report{ID: id[:]}, err

	case taskJoin:
		return report{}, r.join(t)

	case taskVerify:
		return r.verify(t)

	case taskRecheck:
		return r.compare(t)

	case taskWarm, taskBlock:
		return r.block(t)

	case taskCapture:
		return report{}, r.capture(t)

	case taskReplay:
		return r.replay(t)

	case taskDrop:
		return report{}, r.dropGraph()
	}

	return report{}, fmt.Errorf("no task %q", t.Kind)
}

// settle pins the thread to its core for executions and unpins it for other tasks. Threads started by NCCL
// inherit the CPU affinity and must not share the core with a rank that launches.
func (r *rank) settle(t task) {
	want := t.Kind == taskBlock || t.Kind == taskWarm || t.Kind == taskReplay
	if r.core == nil || want == r.pinned {
		return
	}

	r.pinned = want
	if want {
		proc.SetCPUs(r.core)
	} else {
		proc.SetCPUs(r.free)
	}
}

func (r *rank) join(t task) error {
	var id cuda.UniqueID
	if len(t.ID) != len(id) {
		return fmt.Errorf("a unique id has %d bytes, not %d", len(id), len(t.ID))
	}

	copy(id[:], t.ID)
	c, err := r.node.NCCL.InitRank(t.Ranks, id, r.no)
	if err != nil {
		return err
	}

	r.comms[t.Ranks] = c
	return nil
}

// wait returns when all work queued on the stream is done. It returns errCancelled if the
// worker has closed the connection, and errHung after the task's limit. If c is not 0, it also checks for
// asynchronous errors of c.
func (r *rank) wait(t task, c cuda.Comm) error {
	until := r.node.Clock.Now() + limitOf(t)
	pause := betweenPolls
	if runtime.NumCPU() < 16 { // too few for processes that poll
		pause = 1
	}

	for polls := 1; ; polls++ {
		idle, err := r.node.Driver.Idle(r.stream)
		if err != nil {
			return err
		}

		if idle {
			return nil
		}

		// Polling takes driver locks that launching ranks need, so pause between polls.
		for range pause {
			if r.stop.Load() {
				return errCancelled
			}
		}

		if r.node.Clock.Now() > until {
			return fmt.Errorf("%w within %v", errHung, limitOf(t))
		}

		if c != 0 && polls%pollEvery == 0 {
			if err := r.node.NCCL.AsyncError(c); err != nil {
				return err
			}
		}
	}
}

func limitOf(t task) time.Duration { return time.Duration(t.Limit * float64(time.Second)) }

// together synchronizes the devices of the ranks with a small collective.
func (r *rank) together(t task) error {
	c := r.comms[t.Ranks]
	if err := r.startLine(c); err != nil {
		return err
	}
	return r.wait(t, c)
}

// startLine queues a minimal collective that synchronizes the devices of the ranks.
func (r *rank) startLine(c cuda.Comm) error {
	at := r.tally + tallyBytes
	return r.node.NCCL.AllReduce(at, at, 4, cuda.Int32, c, r.stream)
}

// reserve grows the buffers as needed. No rank may have work in flight.
func (r *rank) reserve(t task) error {
	if err := r.grow(&r.send, t.Send); err != nil {
		return err
	}
	if err := r.grow(&r.recv, t.Recv); err != nil {
		return err
	}
	return r.wait(t, 0)
}

func (r *rank) grow(b *buffer, need int64) error {
	if need <= b.bytes {
		return nil
	}

	if err := r.dropGraph(); err != nil {
		return err
	}

	d := r.node.Driver
	if b.at != 0 {
		if err := d.Free(b.at); err != nil {
			return err
		}
		*b = buffer{}
	}

	free, _, err := d.MemInfo()
	if err != nil {
		return err
	}

	bytes := need
	if free >= 16*leastBuffer {
		bytes = max(need, leastBuffer)
	}

	at, err := d.Alloc(bytes)
	if err != nil {
		return fmt.Errorf("a buffer of %d MiB: %w", bytes>>20, err)
	}

	*b = buffer{at, bytes}
	return nil
}
