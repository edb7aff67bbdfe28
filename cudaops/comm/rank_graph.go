package comm

import (
	"errors"
	"fmt"

	"aicplan/cudaops/cuda"
)

// capture captures a graph: a start line that synchronizes the devices, one untimed execution, and blocks
// of executions separated by events.
func (r *rank) capture(t task) error {
	g := &r.graph
	if err := r.dropGraph(); err != nil {
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

func (r *rank) queueBlocks(t task, events []cuda.Event, run func() error) error {
	if err := r.startLine(r.comms[t.Ranks]); err != nil {
		return err
	}

	if err := run(); err != nil {
		return err
	}

	for b := range t.Blocks {
		if err := r.node.Driver.RecordExternal(events[b], r.stream); err != nil {
			return err
		}
		for range t.N {
			if err := run(); err != nil {
				return err
			}
		}
	}

	return r.node.Driver.RecordExternal(events[t.Blocks], r.stream)
}

// replay launches the graph t.Times times and returns the block times of each replay. Ranks replay without
// a message for each replay, because the devices synchronize at the graph's start line and messages between
// processes would leave them idle.
func (r *rank) replay(t task) (report, error) {
	g := &r.graph
	if g.exec == 0 {
		return report{}, errors.New("there is no graph to replay")
	}

	d := r.node.Driver
	times := max(t.Times, 1)
	rep := report{Samples: make([]float64, 0, times*g.task.Blocks)}

	for range times {
		for range t.Ahead + 1 {
			if err := d.LaunchGraph(g.exec, r.stream); err != nil {
				return report{}, err
			}
		}

		if err := r.wait(t, r.comms[t.Ranks]); err != nil {
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

func (r *rank) dropGraph() error {
	x := r.graph.exec
	if x == 0 {
		return nil
	}
	r.graph.exec = 0
	return r.node.Driver.DestroyExec(x)
}

func (r *rank) haveEvents(events *[]cuda.Event, n int) error {
	for len(*events) < n {
		e, err := r.node.Driver.NewEvent()
		if err != nil {
			return err
		}
		*events = append(*events, e)
	}
	return nil
}
