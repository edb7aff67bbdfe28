package comm

import (
	"errors"
	"fmt"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
)

// capture captures a graph: a start line that synchronizes the devices, one untimed execution, and blocks
// of executions separated by events.
func (r *rank) capture(t task) error {
	g := r.graphOf(t)
	if err := r.dropGraph(g); err != nil {
		return err
	}

	run, err := r.execution(t)
	if err != nil {
		return err
	}

	if err := r.haveEvents(&g.events, t.Blocks+1); err != nil {
		return err
	}

	d := r.node.Driver
	if err := d.BeginCapture(r.stream); err != nil {
		return err
	}

	err = r.queueBlocks(t, g.events, run)
	recorded, endErr := d.EndCapture(r.stream)
	if err = errors.Join(err, endErr); err != nil {
		return fmt.Errorf("capturing %d executions: %w", t.N*t.Blocks, err)
	}

	x, err := d.Instantiate(recorded)
	err = errors.Join(err, d.DestroyGraph(recorded))
	if err != nil {
		return fmt.Errorf("instantiating a graph of %d executions: %w", t.N*t.Blocks, err)
	}

	g.exec, g.task = x, t
	if err := d.Upload(x, r.stream); err != nil {
		return err
	}

	return r.wait(t, 0)
}

func (r *rank) queueBlocks(t task, events []driver.Event, run func() error) error {
	if t.Via == viaNCCL {
		if err := r.startLine(r.comm(t.Ranks)); err != nil {
			return err
		}
	}

	if err := run(); err != nil {
		return err
	}

	for b := range t.Blocks {
		if err := r.node.Peers.RecordExternal(events[b], r.stream); err != nil {
			return err
		}
		for range t.N {
			if err := run(); err != nil {
				return err
			}
		}
	}

	return r.node.Peers.RecordExternal(events[t.Blocks], r.stream)
}

// replay launches the graph t.Times times and returns the block times of each replay. Ranks replay without
// a message for each replay, because the devices synchronize at the graph's start line and messages between
// processes would leave them idle.
func (r *rank) replay(t task) (report, error) {
	g := r.graphOf(t)
	if g.exec == 0 {
		return report{}, errors.New("there is no graph to replay")
	}

	d := r.node.Driver
	times := max(t.Times, 1)
	rep := report{Samples: make([]float64, 0, times*g.task.Blocks)}

	for range times {
		if err := r.together(t); err != nil {
			return report{}, err
		}

		for range t.Ahead + 1 {
			if err := d.LaunchGraph(g.exec, r.stream); err != nil {
				return report{}, err
			}
		}

		if err := r.finish(t); err != nil {
			return report{}, err
		}

		for b := range g.task.Blocks {
			ms, err := d.Elapsed(g.events[b], g.events[b+1])
			if err != nil {
				return report{}, err
			}
			rep.Samples = append(rep.Samples, ms/1e3/float64(g.task.N))
		}
	}

	return rep, nil
}

func (r *rank) graphOf(t task) *graph {
	if t.InPlace {
		return &r.graphs[1]
	}
	return &r.graphs[0]
}

func (r *rank) dropGraph(g *graph) error {
	if g.exec == 0 {
		return nil
	}
	x := g.exec
	g.exec = 0
	return r.node.Driver.DestroyExec(x)
}

func (r *rank) dropGraphs() error {
	return errors.Join(r.dropGraph(&r.graphs[0]), r.dropGraph(&r.graphs[1]))
}

func (r *rank) haveEvents(events *[]driver.Event, n int) error {
	for len(*events) < n {
		e, err := r.node.Driver.NewEvent()
		if err != nil {
			return err
		}
		*events = append(*events, e)
	}
	return nil
}

// copies queues t.N copies to the target between two events and returns their time.
func (r *rank) copies(t task) (report, error) {
	if err := r.haveEvents(&r.marks, 2); err != nil {
		return report{}, err
	}

	target := t.Target
	if target == r.no {
		target = t.Back
	}

	if target >= len(t.Peers) {
		return report{}, fmt.Errorf("rank %d of %d as the target of a copy", target, len(t.Peers))
	}

	d, to := r.node.Driver, t.Peers[target]
	if err := r.together(t); err != nil {
		return report{}, err
	}

	if err := d.Record(r.marks[0], r.stream); err != nil {
		return report{}, err
	}

	for range t.N {
		if err := d.CopyPeer(to.Recv, driver.Context(to.Context), r.send.at, r.ctx, t.Bytes, r.stream); err != nil {
			return report{}, err
		}
	}

	if err := d.Record(r.marks[1], r.stream); err != nil {
		return report{}, err
	}

	if err := r.wait(t, 0); err != nil {
		return report{}, err
	}

	ms, err := d.Elapsed(r.marks[0], r.marks[1])
	return report{Seconds: ms / 1e3}, err
}

func (r *rank) fillForCopy(t task) error {
	if err := r.node.Driver.Memset8(r.recv.at, poison, t.Bytes, r.stream); err != nil {
		return err
	}
	if err := r.launchFill(r.send.at, t.Bytes, nccl.Int8); err != nil {
		return err
	}
	return r.wait(t, 0)
}
