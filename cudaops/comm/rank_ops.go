package comm

import (
	"encoding/binary"
	"fmt"

	"aicplan/cudaops/cuda"
)

// poison is not part of any expected result.
const poison = 0xff

func (t task) layout() (layout, error) { return newLayout(t.Op, t.Type, t.Ranks, t.Elements) }

// execution returns a function that queues one execution.
func (r *rank) execution(t task) (func() error, error) {
	l, err := t.layout()
	if err != nil {
		return nil, err
	}

	c := r.comms[t.Ranks]
	if c == 0 {
		return nil, fmt.Errorf("rank %d has not joined a communicator of %d", r.no, t.Ranks)
	}

	lib, n, dt, s := r.node.NCCL, l.count, t.Type, r.stream
	collective := map[string]func(send, recv cuda.Ptr, count int64, t cuda.NCCLType, c cuda.Comm, s cuda.Stream) error{
		AllReduce: lib.AllReduce, AllGather: lib.AllGather, ReduceScatter: lib.ReduceScatter, AllToAll: lib.AllToAll,
		Broadcast: lib.Broadcast,
	}[t.Op]
	if collective != nil {
		return func() error { return collective(r.send.at, r.recv.at, n, dt, c, s) }, nil
	}

	next, last := (r.no+1)%t.Ranks, (r.no+t.Ranks-1)%t.Ranks
	return func() error {
		if err := lib.GroupStart(); err != nil {
			return err
		}
		err := lib.Send(r.send.at, n, dt, next, c, s)
		if err == nil {
			err = lib.Recv(r.recv.at, n, dt, last, c, s)
		}
		// Always close the group, because an open group absorbs all later calls.
		if end := lib.GroupEnd(); err == nil {
			err = end
		}
		return err
	}, nil
}

// verify sends the pattern once and checks the received data.
func (r *rank) verify(t task) (report, error) {
	l, err := t.layout()
	if err != nil {
		return report{}, err
	}

	run, err := r.execution(t)
	if err != nil {
		return report{}, err
	}

	dr := r.node.Driver

	// Poison the receive buffer to detect elements that are never written.
	if err := dr.Memset8(r.recv.at, poison, l.recv*l.size, r.stream); err != nil {
		return report{}, err
	}

	if err := r.launchFill(r.send.at, l.send, t.Type); err != nil {
		return report{}, err
	}

	if err := r.wait(t, 0); err != nil {
		return report{}, err
	}

	if err := run(); err != nil {
		return report{}, err
	}

	if err := r.wait(t, r.comms[t.Ranks]); err != nil {
		return report{}, err
	}

	return r.compare(t)
}

// compare checks the receive buffer.
func (r *rank) compare(t task) (report, error) {
	l, err := t.layout()
	if err != nil {
		return report{}, err
	}
	e, src, base, part := l.check(r.no)
	return r.compareAs(t, l.recv, e, src, base, part)
}

// compareAs checks the first n elements of the receive buffer.
func (r *rank) compareAs(t task, n int64, e expectation, src int, base, part int64) (report, error) {
	dr := r.node.Driver
	if err := dr.Memset32(r.tally, 0, 2, r.stream); err != nil {
		return report{}, err
	}

	if err := dr.Memset32(r.tally+8, 0xffffffff, 2, r.stream); err != nil {
		return report{}, err
	}

	err := dr.Launch(cuda.Launch{
		Func: r.check, Grid: gridFor(n), Block: [3]int{256, 1, 1},
		Args: []any{r.recv.at, uint64(n), int32(e), uint32(t.Ranks), uint32(src), uint64(base), uint64(part),
			int32(t.Type), r.tally},
	}, r.stream)

	if err != nil {
		return report{}, err
	}

	if err := r.wait(t, 0); err != nil {
		return report{}, err
	}

	var words [tallyBytes]byte
	if err := dr.CopyDtoH(words[:], r.tally); err != nil {
		return report{}, err
	}

	return report{
		Checked: n,
		Wrong:   int64(binary.LittleEndian.Uint64(words[:8])),
		First:   int64(binary.LittleEndian.Uint64(words[8:])),
	}, nil
}

func (r *rank) launchFill(at cuda.Ptr, count int64, t cuda.NCCLType) error {
	return r.node.Driver.Launch(cuda.Launch{
		Func: r.fill, Grid: gridFor(count), Block: [3]int{256, 1, 1},
		Args: []any{at, uint64(count), uint32(r.no), int32(t)},
	}, r.stream)
}

// gridFor returns a grid of 256-thread blocks for n elements, with at most 4096 blocks.
func gridFor(n int64) [3]int { return [3]int{int(min((n+255)/256, 4096)), 1, 1} }

// block queues t.N executions back to back and returns their time: from a synchronization of the
// devices until the device is idle.
func (r *rank) block(t task) (report, error) {
	run, err := r.execution(t)
	if err != nil {
		return report{}, err
	}

	if err := r.together(t); err != nil {
		return report{}, err
	}

	clock := r.node.Clock
	began := clock.Now()
	for range t.N {
		if err := run(); err != nil {
			return report{}, err
		}
		if r.stop.Load() {
			return report{}, errCancelled
		}
	}

	if err := r.wait(t, r.comms[t.Ranks]); err != nil {
		return report{}, err
	}

	return report{Seconds: (clock.Now() - began).Seconds()}, nil
}
