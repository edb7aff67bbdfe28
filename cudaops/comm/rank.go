package comm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
	"aicplan/cudaops/nvrtc"
	"aicplan/sink/base/proc"
)

// rank runs tasks on one device. All methods except cancel, rescue and close must be called on the same
// operating system thread.
type rank struct {
	node   *Node
	no     int
	device driver.Device

	// meet waits for the other ranks at a barrier on the host. It is nil if ranks are processes.
	meet func(*rank) error

	// apart is true if the ranks are on several nodes. They then synchronize with a small collective
	// instead of a barrier on the host.
	apart bool

	// pin binds the rank's thread to the CPUs core during executions. Otherwise the thread may use the CPUs
	// free. core is nil if no core is available.
	pin        bool
	core, free []int
	pinned     bool

	// die ends the rank's process. It is nil if the rank is a thread.
	die func()

	ctx    driver.Context
	sm     int
	stream driver.Stream
	marks  []driver.Event // events before and after copies

	send, recv, staging buffer
	signals             driver.Ptr // signals of the peer-memory kernels
	tally               driver.Ptr // two words for the result of the check, followed by scratch memory
	fill, check         driver.Function
	reduce              map[string]driver.Function

	// Graphs of the out-of-place and the in-place form.
	graphs [2]graph

	stop atomic.Bool
	gone bool // an injected fault ended the rank, which stays dead until it is opened again

	mu    sync.Mutex
	comms map[int]nccl.Comm // by number of ranks
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
	exec   driver.GraphExec
	task   task
	events []driver.Event
}

// buffer is device memory that can grow.
type buffer struct {
	at    driver.Ptr
	bytes int64
}

// open initializes the device. It must be called on the rank's thread.
func (r *rank) open() error {
	d := r.node.Driver
	info, err := d.Info(r.device)
	if err != nil {
		return err
	}

	r.sm = info.SM()
	if r.pin {
		r.free, r.core = coreFor(r.no, info.PCI)
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

	mod, err := r.load("pattern.cu", patternSource)
	if err != nil {
		return err
	}

	if r.fill, err = d.Function(mod, "comm_fill"); err != nil {
		return err
	}

	if r.check, err = d.Function(mod, "comm_check"); err != nil {
		return err
	}

	r.comms = map[int]nccl.Comm{}
	r.reduce = map[string]driver.Function{}
	r.gone = false

	return nil
}

func (r *rank) load(name, source string) (driver.Module, error) {
	image, err := r.node.Compile.Compile(nvrtc.Program{Name: name, Source: source, SM: r.sm})
	if err != nil {
		return 0, err
	}
	return r.node.Driver.LoadModule(image)
}

// cancel makes the running task return soon, or an armed task that has not started. It is safe for
// concurrent use.
func (r *rank) cancel() { r.stop.Store(true) }

// arm must be called before a task is sent to the rank's thread. A later cancel applies to this task.
func (r *rank) arm() { r.stop.Store(false) }

// rescue aborts the communicator of a rank that does not return from an NCCL call. It is safe for
// concurrent use.
func (r *rank) rescue(ranks int) error {
	c := r.takeComm(ranks)
	if c == 0 {
		return fmt.Errorf("rank %d does not return and holds no communicator to abort", r.no)
	}
	return r.node.NCCL.Abort(c)
}

func (r *rank) comm(ranks int) nccl.Comm {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.comms[ranks]
}

func (r *rank) takeComm(ranks int) nccl.Comm {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.comms[ranks]
	delete(r.comms, ranks)
	return c
}

var (
	errCancelled = errors.New("released because another rank failed")
	errHung      = errors.New("did not finish")
	errDied      = errors.New("the rank ended (fault on purpose)")
)

// do runs a task and classifies its error.
func (r *rank) do(t task) (report, *rankError) {
	rep, err := r.perform(t)
	if err == nil {
		return rep, nil
	}

	how := failError
	switch {
	case errors.Is(err, errCancelled):
		how = failPeer
	case errors.Is(err, errHung):
		how = failHang
	case errors.Is(err, errDied):
		how = failDied
	case driver.Sticky(err):
		how = failSticky
	}

	return rep, &rankError{Rank: r.no, How: how, Err: err}
}

func (r *rank) perform(t task) (report, error) {
	if r.gone {
		return report{}, errDied
	}

	r.settle(t)
	switch t.Kind {
	case taskReserve:
		return r.reserve(t)

	case taskPeer:
		return report{}, r.usePeers(t)

	case taskID:
		id, err := r.node.NCCL.UniqueID()
		return report{ID: id[:]}, err

	case taskJoin:
		return report{}, r.join(t)

	case taskLeave:
		if c := r.takeComm(t.Ranks); c != 0 {
			return report{}, r.node.NCCL.Destroy(c)
		}
		return report{}, nil

	case taskAbort:
		return report{}, r.abort(t)

	case taskVerify:
		return r.verify(t)

	case taskRecheck:
		return r.recheck(t)

	case taskFill:
		return report{}, r.fillForCopy(t)

	case taskWarm, taskBlock:
		return r.block(t)

	case taskCapture:
		return report{}, r.capture(t)

	case taskReplay:
		return r.replay(t)

	case taskDrop:
		return report{}, r.dropGraphs()

	case taskCopy:
		return r.copies(t)
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
	var id nccl.UniqueID
	if len(t.ID) != len(id) {
		return fmt.Errorf("a unique id has %d bytes, not %d", len(id), len(t.ID))
	}

	copy(id[:], t.ID)
	c, err := r.node.NCCL.InitRank(t.Ranks, id, r.no)
	if err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.comms[t.Ranks] = c

	return nil
}

// abort aborts a communicator whose ranks are out of step, and waits until the device is idle.
func (r *rank) abort(t task) error {
	// A graph references its communicator. Aborting also ends its last replay.
	err := r.dropGraphs()
	if c := r.takeComm(t.Ranks); c != 0 {
		err = errors.Join(err, r.node.NCCL.Abort(c))
	}
	return errors.Join(err, r.wait(t, 0))
}

// wait returns when all work queued on the stream is done. It returns errCancelled if the rank is
// cancelled, and errHung after the task's limit. If c is not 0, it also checks for asynchronous errors of
// c.
func (r *rank) wait(t task, c nccl.Comm) error {
	until := r.node.Clock.Now() + limitOf(t)
	pause := betweenPolls
	if !roomy() {
		pause = 1
	}

	for polls := 1; ; polls++ {
		idle, err := r.node.Peers.Idle(r.stream)
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

// together synchronizes with the other ranks: at a host barrier if they are threads, with a small
// collective if they are on other nodes. It does nothing for processes on one node, whose graphs start with
// a synchronization on the devices.
func (r *rank) together(t task) error {
	switch {
	case r.meet != nil:
		return r.meet(r)
	case !r.apart || t.Via != viaNCCL || t.Kind == taskReplay:
		return nil
	}

	c := r.comm(t.Ranks)
	if err := r.startLine(c); err != nil {
		return err
	}
	return r.wait(t, c)
}

// startLine queues a minimal collective that synchronizes the devices of the ranks.
func (r *rank) startLine(c nccl.Comm) error {
	at := r.tally + tallyBytes
	return r.node.NCCL.AllReduce(at, at, 4, nccl.Int32, nccl.Sum, c, r.stream)
}

// reserve grows the buffers as needed and clears the signals of the peer-memory kernels. No rank may have
// work in flight.
func (r *rank) reserve(t task) (report, error) {
	d := r.node.Driver
	for _, b := range []struct {
		buf  *buffer
		need int64
	}{{&r.send, t.Send}, {&r.recv, t.Recv}, {&r.staging, t.Staging}} {
		if err := r.grow(b.buf, b.need); err != nil {
			return report{}, err
		}
	}

	if t.Staging > 0 {
		if r.signals == 0 {
			var err error
			if r.signals, err = d.Alloc(signalBytes); err != nil {
				return report{}, err
			}
		}
		if err := d.Memset8(r.signals, 0, signalBytes, r.stream); err != nil {
			return report{}, err
		}
	}

	if err := r.wait(t, 0); err != nil {
		return report{}, err
	}

	return report{Place: place{
		Device: r.device, Context: uint64(r.ctx), Send: r.send.at, Recv: r.recv.at, Staging: r.staging.at,
		Signals: r.signals,
	}}, nil
}

func (r *rank) grow(b *buffer, need int64) error {
	if need <= b.bytes {
		return nil
	}

	if err := r.dropGraphs(); err != nil {
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
