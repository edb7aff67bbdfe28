package comm

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"time"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

const (
	copyMost  = 1000
	copyBlock = 2 * time.Millisecond
)

// copier measures copies from one GPU's memory to another's, in this process.
type copier struct {
	series
	// pairs are the directions: from the first device to the second, and back if both ways are measured.
	pairs [][2]*rank
}

// peers has the parameters of a case of p2p: device indices, bytes, and whether copies in the other direction run at
// the same time.
type peers struct {
	Src       int64  `param:"src" least:"0"`
	Dst       int64  `param:"dst" least:"0"`
	Bytes     int64  `param:"bytes"`
	Direction string `param:"direction" words:"one_way both_ways" optional:"true"`
}

// p2p measures copies from one GPU's memory to another's and returns the row. Latency is the time per copy of several
// queued copies, measured with device events. gb_per_s counts the bytes in one direction.
func (h *host) p2p(ctx context.Context, p *worker.Params) (worker.Row, error) {
	var c peers
	p.Read(&c)
	src, dst, bytes := int(c.Src), int(c.Dst), c.Bytes
	if p.Err == nil && src == dst {
		p.Fail(worker.ClassUnsupportedConfig, "src and dst are both %d; a copy goes from one GPU to another", src)
	}

	if p.Err != nil {
		return nil, p.Err
	}

	if err := h.enough(max(src, dst) + 1); err != nil {
		return nil, err
	}

	// The contexts of both devices are current on this thread in turn.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	access, err := h.node.Driver.CanAccessPeer(h.devices[src], h.devices[dst])
	if err != nil {
		return nil, failureOf(err, true)
	}

	run := &copier{series: series{clock: h.node.Clock, settings: h.settings, bytes: bytes}}
	from, to, err := h.pair(src, dst, bytes)
	if err == nil {
		run.pairs = [][2]*rank{{from, to}}
		if c.Direction == "both_ways" {
			run.pairs = append(run.pairs, [2]*rank{to, from})
		}
		err = run.measure(ctx)
	}
	if err != nil {
		return nil, failureOf(err, true)
	}

	res := run.result(false)
	row := worker.Row(res.Columns())
	maps.Copy(
		row,
		worker.Row{"access": access, "gb_per_s": float64(bytes) / res.Latency / 1e6, "kernel_source": "cuMemcpyPeerAsync"},
	)

	return row, nil
}

// pair opens two devices in this process, with buffers for the given number of bytes and access to each
// other's memory if possible. Without access, the driver copies through the host.
func (h *host) pair(src, dst int, bytes int64) (from, to *rank, err error) {
	if from, err = h.local(src); err != nil {
		return nil, nil, err
	}
	if to, err = h.local(dst); err != nil {
		return nil, nil, err
	}

	d := h.node.Driver
	for _, p := range [][2]*rank{{from, to}, {to, from}} {
		if err := p[0].use(); err != nil {
			return nil, nil, err
		}
		if err := p[0].reserve(task{Send: bytes, Recv: bytes, Limit: h.options.RankDeadline}); err != nil {
			return nil, nil, err
		}

		can, err := d.CanAccessPeer(p[0].device, p[1].device)
		if err == nil && can {
			err = d.EnablePeer(p[1].ctx)
		}
		if err != nil {
			return nil, nil, err
		}
	}

	return from, to, nil
}

// local returns a rank in this process, which is kept for later cases.
func (h *host) local(no int) (*rank, error) {
	if r := h.locals[no]; r != nil {
		return r, nil
	}

	r := &rank{node: h.node, no: no, device: h.devices[no]}
	if err := r.open(); err != nil {
		return nil, err
	}
	if h.locals == nil {
		h.locals = map[int]*rank{}
	}

	h.locals[no] = r
	return r, nil
}

// use makes the rank's context current on the calling thread.
func (r *rank) use() error { return r.node.Driver.SetCurrent(r.ctx) }

// measure verifies one copy and then times copies until the passes agree.
func (c *copier) measure(ctx context.Context) error {
	if err := c.verify(); err != nil {
		return err
	}

	for !c.settled() {
		if err := c.time(fewestWarm, false); err != nil {
			return err
		}

		err := c.sample(ctx, func(ctx context.Context) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return c.time(min(copyMost, max(fewestWarm, c.within(copyBlock))), true)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// verify copies a pattern once and compares it on the receiving device.
func (c *copier) verify() error {
	limit := task{Limit: kernelSeconds}
	from, to := c.pairs[0][0], c.pairs[0][1]
	for _, r := range []*rank{from, to} {
		if err := r.use(); err != nil {
			return err
		}
		if err := r.node.Driver.Memset8(r.recv.at, poison, c.bytes, r.stream); err != nil {
			return err
		}
		if err := r.launchFill(r.send.at, c.bytes, cuda.Int8); err != nil {
			return err
		}
		if err := r.wait(limit, 0); err != nil {
			return err
		}
	}

	if err := c.time(1, false); err != nil {
		return err
	}
	if err := to.use(); err != nil {
		return err
	}

	t := task{Type: cuda.Int8, Ranks: 2, Limit: kernelSeconds}
	rep, err := to.compareAs(t, c.bytes, expectCopy, from.no, 0, c.bytes)
	if err == nil && rep.Wrong > 0 {
		err = rep.wrongResult(to.no)
	}
	return err
}

// kernelSeconds bounds the kernels that fill and compare buffers.
const kernelSeconds = 15

// time runs n copies in each direction. If counts is true, the time of the slower direction is added to the
// samples.
func (c *copier) time(n int, counts bool) error {
	each := func(do func(from, to *rank) error) error {
		for _, p := range c.pairs {
			if err := p[0].use(); err != nil {
				return err
			}
			if err := do(p[0], p[1]); err != nil {
				return err
			}
		}
		return nil
	}

	err := each(func(from, _ *rank) error {
		if err := from.haveEvents(&from.marks, 2); err != nil {
			return err
		}
		return from.node.Driver.Record(from.marks[0], from.stream)
	})

	// Queue one copy of each direction in turn, so that both begin at the same time.
	for range n {
		if err == nil {
			err = each(func(from, to *rank) error {
				return from.node.Driver.CopyPeer(to.recv.at, to.ctx, from.send.at, from.ctx, c.bytes, from.stream)
			})
		}
	}

	if err == nil {
		err = each(func(from, _ *rank) error { return from.node.Driver.Record(from.marks[1], from.stream) })
	}
	if err != nil {
		return err
	}

	slow := 0.0
	err = each(func(from, _ *rank) error {
		if err := from.wait(task{Limit: kernelSeconds}, 0); err != nil {
			return err
		}
		ms, err := from.node.Driver.Elapsed(from.marks[0], from.marks[1])
		slow = math.Max(slow, ms/1e3)
		return err
	})
	if err != nil {
		return err
	}

	c.perExec = slow / float64(n)
	if counts {
		return c.add(c.perExec, slow, n)
	}

	c.executions += n
	if !(c.perExec > 0) {
		return fmt.Errorf("%w: %v s for %d copies", measure.ErrTimer, slow, n)
	}
	return nil
}
