package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
)

const (
	// gateLimit is how long the device waits for the host to queue a burst, in nanoseconds. If
	// the host is preempted for longer, the burst is invalid.
	gateLimit = 20_000_000
	// gateLeast is how long the gate spins at least, in nanoseconds, so that the step of the
	// wall clock does not affect the measured SM clock.
	gateLeast = 20_000
	// gateTries is the number of tries of an invalid burst.
	gateTries = 3
	// queueDepth is the maximum number of executions queued while the gate is closed, and twice
	// that of launches. If the queue were full, the host would block before it opens the gate.
	// An H200 (driver 580) accepted 420 executions in graphs of 4 and 5, but not 540.
	queueDepth = 400
)

// ErrGate is returned if the host repeatedly could not queue a burst in time, because its
// CPU is busy.
var ErrGate = errors.New("the host was too slow to queue a burst: is its processor overloaded?")

// Burst implements measure.Burster. The device waits until the whole burst is queued, so that
// no block contains time of the host. The cycle counter and the wall clock of SM 0 are read
// before and after every block. If the blocks do not fit into the queue, they are run in
// several bursts without a pause.
func (t *Target) Burst(ctx context.Context, b measure.Burst) ([]measure.Block, error) {
	if b.Blocks < 1 || b.Executions < 1 {
		panic(fmt.Sprintf("ops: a burst of %d blocks of %d executions", b.Blocks, b.Executions))
	}

	// Executions continue with the next operand set.
	t.which = b.Capture % len(t.made)
	const around = 4 // two stamps and two events of a block
	launches := (b.Executions + t.Quantum() - 1) / t.Quantum()
	kernels := b.Executions * max(t.c.Kernels, 1)
	atOnce := min(max(min(queueDepth/(kernels+around), queueDepth/2/(launches+around)), 1), maxBlocks)
	var out []measure.Block
	for len(out) < b.Blocks {
		part := b
		part.Blocks = min(b.Blocks-len(out), atOnce)
		if len(out) > 0 {
			part.Soak, part.Warm = 0, 0
		}

		blocks, err := t.gated(ctx, part)
		if err != nil {
			return nil, err
		}

		out = append(out, blocks...)
	}

	return out, nil
}

// gated runs a burst, and repeats it if the host was too slow.
func (t *Target) gated(ctx context.Context, b measure.Burst) ([]measure.Block, error) {
	for range gateTries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		blocks, ok, err := t.burst(b)
		if err != nil {
			return nil, err
		}

		if ok {
			return blocks, nil
		}
	}

	return nil, ErrGate
}

func (t *Target) burst(b measure.Burst) ([]measure.Block, bool, error) {
	d := t.dev
	d.busy.Lock()
	defer d.busy.Unlock()
	err := t.warmUp()
	if err == nil {
		err = t.soak(b.Soak)
	}
	if err == nil {
		err = d.queueGate()
	}
	if err != nil {
		return nil, false, err
	}

	counts, err := t.queueBurst(b)
	d.openGate()
	if err = cmp.Or(err, d.Lib.Driver.SyncStream(d.stream)); err != nil {
		return nil, false, err
	}

	ready, ok := d.readGate()
	if !ok {
		return nil, false, nil
	}

	blocks := make([]measure.Block, b.Blocks)
	for i := range blocks {
		if blocks[i], err = t.read(i, counts[i]); err != nil {
			return nil, false, err
		}
		blocks[i].ReadyMHz = ready
	}

	return blocks, true, nil
}

// read returns a timed block of n executions.
func (t *Target) read(i, n int) (measure.Block, error) {
	d := t.dev
	ms, err := d.Lib.Driver.Elapsed(d.events[2*i], d.events[2*i+1])
	return measure.Block{Seconds: ms / 1e3, Executions: n, UsedGraph: t.UsesGraph(), ClockMHz: d.clockOf(i)}, err
}

// timed queues the work of block i between two stamps and two events, and returns the number of executions that work
// returns.
func (d *Device) timed(i int, work func() (int, error)) (n int, err error) {
	if err = d.queueStamp(2 * i); err == nil {
		err = d.Lib.Driver.Record(d.events[2*i], d.stream)
	}
	if err == nil {
		n, err = work()
	}
	if err == nil {
		err = d.Lib.Driver.Record(d.events[2*i+1], d.stream)
	}
	if err == nil {
		err = d.queueStamp(2*i + 1)
	}
	return n, err
}

// warmUp transfers a target's code and graphs to the device before their first burst. Code is
// loaded at a kernel's first launch, which may wait for the device and would deadlock while the
// gate is closed. A graph is uploaded at its first launch, which would be part of a block. For
// long executions neither matters, because capturing has loaded the code, and running them
// would heat the device.
func (t *Target) warmUp() error {
	m := &t.made[t.which]
	if m.warm {
		return nil
	}

	n := 1
	if t.UsesGraph() {
		if s, _ := t.dev.Peaks.Estimate(t.c); s > longEnough {
			m.warm = true
			return nil
		}

		n = len(m.execs) * t.perGraph
	}

	if _, err := t.queue(n); err != nil {
		return err
	}

	if err := t.dev.Lib.Driver.SyncStream(t.dev.stream); err != nil {
		return err
	}

	m.warm = true
	return nil
}

// soakLaunches is the number of launches that a soak queues at once. The queue of a device
// has about a thousand entries, and the host blocks if it is full.
const soakLaunches = 256

// soak runs n executions without timing them. The last ones may still be running when it
// returns, so that the device stays busy.
func (t *Target) soak(n int) error {
	for n > 0 {
		part := min(n, soakLaunches*t.Quantum())
		if _, err := t.queue(part); err != nil {
			return err
		}

		if n -= part; n > 0 {
			if err := t.dev.Lib.Driver.SyncStream(t.dev.stream); err != nil {
				return err
			}
		}
	}

	return nil
}

func (t *Target) queueBurst(b measure.Burst) (counts []int, err error) {
	if b.Warm > 0 {
		if _, err := t.queue(b.Warm); err != nil {
			return nil, err
		}
	}

	counts = make([]int, b.Blocks)
	for i := range counts {
		counts[i], err = t.dev.timed(i, func() (int, error) { return t.queue(b.Executions) })
		if err != nil {
			return nil, err
		}
	}

	return counts, nil
}

// queueGate queues the kernel that blocks the stream.
func (d *Device) queueGate() error {
	clear(d.host.Bytes[hostGate:])
	d.gateNo++
	return d.Lib.Driver.Launch(cuda.Launch{
		Func: d.core.gate, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1},
		Args: []any{d.host.Device + hostFlag, d.gateNo, uint64(gateLeast), uint64(gateLimit), d.host.Device + hostGate},
	}, d.stream)
}

// readGate returns the SM clock in MHz while the gate was closed. ok is false if the gate
// opened by itself after gateLimit.
func (d *Device) readGate() (mhz float64, ok bool) {
	if nanos := d.word(hostGate + 16); nanos > 0 {
		mhz = float64(d.word(hostGate+8)) * 1e3 / float64(nanos)
	}

	return mhz, d.word(hostGate) == 0
}

// Ready returns the clock of an idle multiprocessor in MHz, which the power controller
// currently allows.
func (d *Device) Ready(ctx context.Context) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}

	d.busy.Lock()
	defer d.busy.Unlock()
	if err := d.queueGate(); err != nil {
		return 0, err
	}

	d.openGate()
	err := d.Lib.Driver.SyncStream(d.stream)
	mhz, _ := d.readGate()
	return mhz, err
}

// openGate starts the queued burst. The device polls this word across the bus, so it must be
// stored atomically.
func (d *Device) openGate() {
	flag := (*uint32)(unsafe.Pointer(&d.host.Bytes[hostFlag]))
	atomic.StoreUint32(flag, d.gateNo)
}

func (d *Device) queueStamp(i int) error {
	return d.Lib.Driver.Launch(cuda.Launch{
		Func: d.core.stamp, Grid: [3]int{d.Info.SMs, 1, 1}, Block: [3]int{1, 1, 1},
		Args: []any{d.host.Device + cuda.Ptr(hostStamps+i*stampBytes)},
	}, d.stream)
}

// readStamp returns the counters of SM 0, and whether there was a stamp.
func (d *Device) readStamp(i int) (cycles, nanos uint64, ok bool) {
	at := hostStamps + i*stampBytes
	return d.word(at), d.word(at + 8), d.word(at+16) == 1
}

// clockOf returns the mean clock of SM 0 in a timed block in MHz, or 0 if a stamp is missing.
func (d *Device) clockOf(i int) float64 {
	from, begin, okA := d.readStamp(2 * i)
	to, end, okB := d.readStamp(2*i + 1)
	if !okA || !okB || end <= begin {
		return 0
	}

	return float64(to-from) * 1e3 / float64(end-begin)
}
