package comm

import (
	"context"
	"maps"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// visitor is a case that is measured in one or more visits.
type visitor interface {
	// visit continues the measurement. If done is true, row is the result. An error ends the case.
	visit(ctx context.Context) (row worker.Row, done bool, err error)
}

// once is a visitor that needs a single visit.
type once func(ctx context.Context) (worker.Row, error)

func (f once) visit(ctx context.Context) (worker.Row, bool, error) {
	row, err := f(ctx)
	return row, err == nil, err
}

// measurement is a case in which ranks exchange messages. It is verified, timed in several passes, and
// verified again.
type measurement struct {
	series
	layout layout
	method string

	// prepare makes the ranks ready for the case. It is called on each visit, because other cases run in
	// between.
	prepare func(context.Context) error
	columns worker.Row // additional columns of the row

	checked int64 // elements
}

func (h *host) measurement(t task, l layout, method string) *measurement {
	return &measurement{layout: l, method: method, series: series{
		group: h.group, clock: h.node.Clock, settings: h.settings, task: t, bytes: l.bytes, graph: method == MethodGraph,
	}}
}

// visit makes one pass.
func (m *measurement) visit(ctx context.Context) (worker.Row, bool, error) {
	row, done, err := m.work(ctx)
	if err != nil {
		return nil, false, failureOf(err, false)
	}
	return row, done, nil
}

func (m *measurement) work(ctx context.Context) (worker.Row, bool, error) {
	if err := m.prepare(ctx); err != nil {
		return nil, false, err
	}

	if m.checked == 0 {
		if err := m.verify(ctx, taskVerify); err != nil {
			return nil, false, err
		}
	}

	if err := m.pass(ctx); err != nil {
		return nil, false, err
	}

	if !m.settled() {
		return nil, false, m.release(ctx)
	}

	if err := m.finish(ctx); err != nil {
		return nil, false, err
	}

	return m.row(), true, nil
}

// finish verifies the collective again, including its graph, because races may only show up after many
// executions.
func (m *measurement) finish(ctx context.Context) error {
	if err := m.verify(ctx, taskVerify); err != nil || !m.graph {
		return err
	}

	if err := m.haveGraph(ctx); err != nil {
		return err
	}

	if _, err := m.do(ctx, taskReplay, m.task.N); err != nil {
		return err
	}

	if err := m.verify(ctx, taskRecheck); err != nil {
		return err
	}

	return m.release(ctx)
}

// release frees the graph of the case, because ranks keep the graph of only one case and other cases are
// visited in between. Capturing a graph again at each visit also samples the differences between captures.
func (m *measurement) release(ctx context.Context) error {
	if !m.graph {
		return nil
	}

	_, err := m.do(ctx, taskDrop, 0)
	m.captured = m.captured && err != nil
	return err
}

func (m *measurement) row() worker.Row {
	res := m.result(m.graph)
	row := worker.Row(res.Columns())
	alg, bus := m.layout.gigabytesPerSecond(res.Latency / 1e3)
	maps.Copy(row, worker.Row{
		"method": m.method, "bytes": m.layout.bytes, "algbw_gb_s": alg, "busbw_gb_s": bus,
		"rank_spread": measure.Median(m.spreads) - 1, "checked": m.checked,
	})

	if m.settings.Protocol != measure.ProtocolReference {
		row["operating_point"] = m.settings.OperatingPoint
	}

	maps.Copy(row, m.columns)
	return row
}

// verify sends the pattern once, or compares the result of the last execution (taskRecheck). It returns a
// *wrongError if elements are wrong.
func (m *measurement) verify(ctx context.Context, kind string) error {
	reps, err := m.do(ctx, kind, m.task.N)
	if err != nil {
		return err
	}

	for i, r := range reps {
		if r.Wrong > 0 {
			return &wrongError{Rank: i, Wrong: r.Wrong, Checked: r.Checked, First: r.First}
		}
		m.checked += r.Checked
	}

	return nil
}
