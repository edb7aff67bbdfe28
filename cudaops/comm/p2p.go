package comm

import (
	"context"
	"fmt"
	"math"
	"time"

	"aicplan/cudaops/measure"
)

// Path describes the connection from one GPU's memory to another's, as reported by the driver and NVML.
type Path struct {
	Src, Dst        int
	Access          bool // kernels of Src can access memory of Dst
	Atomics         bool // atomic operations are supported
	PerformanceRank int  // 0 is the fastest kind of path of the machine
	Links           int  // active NVLinks, if LinksKnown
	LinksKnown      bool
}

func (h *host) path(src, dst int) (Path, error) {
	p := Path{Src: src, Dst: dst}
	a, b := h.devices[src], h.devices[dst]
	access, err := h.node.Driver.CanAccessPeer(a, b)
	if err != nil {
		return p, err
	}

	atomics, err := h.node.Peers.P2P(P2PNativeAtomics, a, b)
	if err != nil {
		return p, err
	}

	p.Access, p.Atomics = access, atomics != 0
	if p.PerformanceRank, err = h.node.Peers.P2P(P2PPerformanceRank, a, b); err != nil {
		return p, err
	}

	if h.node.Links != nil {
		p.Links, p.LinksKnown = h.node.Links(int(a), int(b))
	}

	return p, nil
}

const (
	copyMost  = 1000
	copyBlock = 2 * time.Millisecond
)

// copyForm measures copies.
type copyForm struct {
	form
	back int // target of the copy in the other direction, if two ranks take part
}

// measure verifies one copy and then times copies until the passes agree.
func (f *copyForm) measure(ctx context.Context, src, dst int) error {
	t := f.task
	t.Kind, t.Only = taskFill, []int{src, dst}
	if _, err := f.crew.do(ctx, t); err != nil {
		return err
	}

	if err := f.time(ctx, 1, false); err != nil {
		return err
	}

	t.Kind, t.Only, t.Target = taskRecheck, []int{dst}, src
	reps, err := f.crew.do(ctx, t)
	if err != nil {
		return err
	}

	if r := reps[dst]; r.Wrong > 0 {
		return &wrongError{Rank: dst, Wrong: r.Wrong, Checked: r.Checked, First: r.First}
	}

	for !f.settled() {
		if err := f.time(ctx, fewestWarm, false); err != nil {
			return err
		}

		s, first, began := f.settings, len(f.series.samples), f.clock.Now()
		for {
			if err := f.time(ctx, min(copyMost, max(fewestWarm, f.within(copyBlock))), true); err != nil {
				return err
			}
			mine := f.series.samples[first:]
			long := f.clock.Now()-began >= time.Duration(s.MaxPassSeconds*float64(time.Second))
			if s.Protocol == measure.ProtocolReference || len(mine) >= s.MinSamples &&
				(len(mine) >= s.MaxSamples || long || measure.RelStdev(mine) <= s.TargetRelStdev) {
				f.series.medians = append(f.series.medians, measure.Median(mine))
				break
			}
		}
	}

	return nil
}

// time runs n copies in each direction. If counts is true, the time is added to the samples.
func (f *copyForm) time(ctx context.Context, n int, counts bool) error {
	t := f.task
	t.Kind, t.N = taskCopy, n
	t.Back = f.back
	reps, err := f.crew.do(ctx, t)
	if err != nil {
		return err
	}

	slow := 0.0
	for _, i := range t.Only {
		slow = math.Max(slow, reps[i].Seconds)
	}

	f.perExec = slow / float64(n)
	if !counts {
		f.series.executions += n
		if !(f.perExec > 0) {
			return fmt.Errorf("%w: %v s for %d copies", measure.ErrTimer, slow, n)
		}
		return nil
	}

	return f.series.add(f.perExec, slow, n)
}
