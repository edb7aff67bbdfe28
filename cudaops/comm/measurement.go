package comm

import (
	"context"
	"maps"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// once is a worker.Visitor that needs a single visit.
type once func(ctx context.Context) (worker.Row, error)

// Visit implements worker.Visitor.
func (f once) Visit(ctx context.Context) ([]worker.Row, float64, bool, error) {
	row, err := f(ctx)
	return []worker.Row{row}, 0, err == nil, err
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

// Visit implements worker.Visitor. It makes one pass.
func (m *measurement) Visit(ctx context.Context) ([]worker.Row, float64, bool, error) {
	done, err := m.work(ctx)
	if err != nil || !done {
		return nil, 0, false, failureOf(err, false)
	}
	return []worker.Row{m.row()}, 0, true, nil
}

// work makes one pass and reports whether it was the last.
func (m *measurement) work(ctx context.Context) (bool, error) {
	err := m.prepare(ctx)
	if err == nil && m.checked == 0 {
		err = m.verify(ctx, taskVerify)
	}

	if err == nil {
		err = m.pass(ctx)
	}

	switch {
	case err != nil:
		return false, err
	case m.settled():
		return true, m.finish(ctx)
	}
	return false, m.release(ctx)
}

// finish verifies the collective again, including its graph, because races may only show up after many
// executions.
func (m *measurement) finish(ctx context.Context) error {
	err := m.verify(ctx, taskVerify)
	if err != nil || !m.graph {
		return err
	}

	if err = m.haveGraph(ctx); err == nil {
		_, err = m.do(ctx, taskReplay, m.task.N)
	}
	if err == nil {
		err = m.verify(ctx, taskRecheck)
	}
	if err == nil {
		err = m.release(ctx)
	}
	return err
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

// verify sends the pattern once, or compares the result of the last execution (taskRecheck).
func (m *measurement) verify(ctx context.Context, kind string) error {
	reps, err := m.do(ctx, kind, m.task.N)
	if err != nil {
		return err
	}

	for i, r := range reps {
		if r.Wrong > 0 {
			return r.wrongResult(i)
		}
		m.checked += r.Checked
	}

	return nil
}
