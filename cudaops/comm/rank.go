package comm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"aicplan/cudaops/affinity"
	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
	"aicplan/cudaops/nvrtc"
)

// rank does tasks on one device. All calls but cancel, rescue and close come
// from one operating system thread.
type rank struct {
	node   *Node
	no     int
	device driver.Device
	// meet waits for the other ranks on the host; nil where they are processes.
	meet func(*rank) error
	// apart is true where the ranks are on several nodes: they have no barrier of
	// the host, and meet in a small collective instead.
	apart bool
	// pin keeps the rank's thread on a processor core of its own while it
	// executes: core are its processors then, free those that it may have
	// otherwise. Nil where it stays where it is.
	pin        bool
	core, free []int
	pinned     bool
	// die ends the rank's process; nil where it has none of its own.
	die func()

	ctx    driver.Context
	sm     int
	stream driver.Stream
	marks  []driver.Event // around copies

	send, recv, staging buffer
	signals             driver.Ptr // of the peer-memory kernels
	tally               driver.Ptr // two words that the check fills, and scratch behind them
	fill, check         driver.Function
	reduce              map[string]driver.Function
	// One graph for each form, out of place and in place.
	graphs [2]graph

	stop atomic.Bool
	gone bool // the rank died on purpose and stays dead until it is opened again

	mu    sync.Mutex
	comms map[int]nccl.Comm // by number of ranks
}

const (
	tallyBytes   = 16
	scratchBytes = 4096
	// leastBuffer is what the send and receive buffers start with where the
	// device has memory for it. Buffers that NCCL has shared with other processes
	// for a graph should not be freed under it, and this holds every published
	// message.
	leastBuffer = 512 << 20
	pollEvery   = 1024 // polls between two looks at the communicator
	// betweenPolls is about a microsecond of doing nothing.
	betweenPolls = 500
)

// graph is a captured task, ready to replay.
type graph struct {
	exec   driver.GraphExec
	task   task
	events []driver.Event
}

// buffer is device memory that grows.
type buffer struct {
	at    driver.Ptr
	bytes int64
}

// open makes the device ready. It is called on the rank's own thread.
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

// cancel makes the task in flight return soon, also one that was armed and has
// not begun. It may be called from any goroutine.
func (r *rank) cancel() { r.stop.Store(true) }

// arm is called before a task is given to the rank's thread: a cancel that
// comes after it is for this task.
func (r *rank) arm() { r.stop.Store(false) }

// rescue aborts a communicator under a rank that does not come back from a call
// of NCCL. It may be called from any thread.
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

// do does one task and says how it failed.
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

// settle pins the thread to its core for executions, and lets it go for all
// else: threads that NCCL starts inherit where they may run, and must not share
// the core with a rank that launches.
func (r *rank) settle(t task) {
	want := t.Kind == taskBlock || t.Kind == taskWarm || t.Kind == taskReplay
	if r.core == nil || want == r.pinned {
		return
	}
	r.pinned = want
	if want {
		affinity.Set(r.core)
	} else {
		affinity.Set(r.free)
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

// abort leaves a communicator whose ranks no longer agree, and waits until the
// device is idle.
func (r *rank) abort(t task) error {
	// A graph holds on to its communicator; its last replay ends with the abort.
	err := r.dropGraphs()
	if c := r.takeComm(t.Ranks); c != 0 {
		err = errors.Join(err, r.node.NCCL.Abort(c))
	}
	return errors.Join(err, r.wait(t, 0))
}

// wait returns when everything queued on the stream is done, when the rank is
// cancelled, or with errHung after the task's limit.
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
		// A look takes locks that ranks need which still launch: not too often.
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

// together waits for the other ranks: on the host where they are threads, in a
// small collective where they are on other nodes. Processes of one node do not
// wait here: their graphs begin with a meeting of their devices.
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

// startLine queues a collective so small that all it does is to let the devices
// of the ranks wait for each other.
func (r *rank) startLine(c nccl.Comm) error {
	at := r.tally + tallyBytes
	return r.node.NCCL.AllReduce(at, at, 4, nccl.Int32, nccl.Sum, c, r.stream)
}

// reserve makes the buffers large enough and clears the signals of the
// peer-memory kernels. No rank may have work in flight.
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
		Device: r.device, Context: uint64(r.ctx), Send: r.send.at, Recv: r.recv.at, Staging: r.staging.at, Signals: r.signals,
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
