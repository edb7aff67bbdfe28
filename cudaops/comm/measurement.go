package comm

import (
	"context"
	"fmt"
	"maps"
	"strings"

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
	group    *group
	task     task
	layout   layout
	method   string
	settings measure.Settings

	// prepare makes the ranks ready for the case. It is called on each visit, because other cases run in
	// between.
	prepare func(context.Context) error
	columns worker.Row // additional columns of the row

	forms   []*form
	checked int64
	begun   bool
}

func (h *host) measurement(t task, l layout, method string) *measurement {
	m := &measurement{group: h.group, task: t, layout: l, method: method, settings: h.settings}
	newForm := func(inPlace bool) *form {
		f := &form{
			group: h.group, clock: h.node.Clock, settings: h.settings, task: t, bytes: l.bytes, graph: method == MethodGraph,
		}
		f.task.InPlace = inPlace
		return f
	}

	m.forms = []*form{newForm(false)}
	if l.inPlace && h.options.InPlace {
		m.forms = append(m.forms, newForm(true))
	}

	return m
}

// visit makes one pass over each unfinished form.
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

	if !m.begun {
		for _, f := range m.forms {
			n, err := verifyForm(ctx, f)
			if err != nil {
				return nil, false, err
			}
			m.checked += n
		}
		m.begun = true
	}

	open := false
	for _, f := range m.forms {
		if f.settled() {
			continue
		}
		if err := f.pass(ctx); err != nil {
			return nil, false, err
		}
		open = open || !f.settled()
	}

	if open {
		return nil, false, m.release(ctx)
	}

	if err := m.finish(ctx); err != nil {
		return nil, false, err
	}

	return m.row(), true, nil
}

// finish verifies the timed form again, including its graph, because races may only show up after many
// executions.
func (m *measurement) finish(ctx context.Context) error {
	f := m.forms[0]
	n, err := verifyForm(ctx, f)
	if err != nil {
		return err
	}

	m.checked += n
	if m.method != MethodGraph {
		return nil
	}

	if err := f.haveGraph(ctx); err != nil {
		return err
	}

	t := f.task
	t.Kind = taskReplay
	if _, err := m.group.do(ctx, t); err != nil {
		return err
	}

	if n, err = recheckForm(ctx, f); err != nil {
		return err
	}

	m.checked += n
	return m.release(ctx)
}

// release frees the graphs of the case, because ranks keep graphs of only one case and other cases are
// visited in between. Capturing a graph again at each visit also samples the differences between captures.
func (m *measurement) release(ctx context.Context) error {
	if m.method != MethodGraph {
		return nil
	}

	t := m.forms[0].task
	t.Kind = taskDrop
	if _, err := m.group.do(ctx, t); err != nil {
		return err
	}

	for _, f := range m.forms {
		f.captured = false
	}

	return nil
}

// row returns the result. Columns without a suffix are of the out-of-place form.
func (m *measurement) row() worker.Row {
	graph := m.method == MethodGraph
	res := m.forms[0].series.result(graph, m.settings.Protocol)
	row := worker.Row(res.Columns())
	alg, bus := m.layout.gigabytesPerSecond(res.Latency / 1e3)
	maps.Copy(row, worker.Row{
		"method": m.method, "bytes": m.layout.bytes, "algbw_gb_s": alg, "busbw_gb_s": bus,
		"rank_spread": measure.Median(m.forms[0].series.spreads) - 1, "checked": m.checked,
	})

	if len(m.forms) > 1 {
		in := m.forms[1].series.result(graph, m.settings.Protocol)
		alg, bus := m.layout.gigabytesPerSecond(in.Latency / 1e3)
		maps.Copy(row, worker.Row{
			"latency_in_place": in.Latency, "samples_in_place": in.Samples,
			"algbw_in_place_gb_s": alg, "busbw_in_place_gb_s": bus,
		})
		if in.RelStdev != nil {
			row["rel_stdev_in_place"] = *in.RelStdev
		}
	}

	if m.settings.Protocol != measure.ProtocolReference {
		row["operating_point"] = m.settings.OperatingPoint
	}

	maps.Copy(row, m.columns)
	return row
}

// visits formats what each visit of the out-of-place form measured: the median over its blocks, and the
// 10th and 90th percentile of the means of its replays, in microseconds.
func (m *measurement) visits() string {
	f := m.forms[0]
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d elements on %d ranks, %s:", m.task.Op, m.task.Elements, m.task.Ranks, m.method)

	for i, median := range f.series.medians {
		fmt.Fprintf(&b, " %.3f", median*1e6)
		if low, high, ok := f.series.replays(i); ok {
			fmt.Fprintf(&b, " (%.3f to %.3f)", low*1e6, high*1e6)
		}
	}
	return b.String()
}

// verifyForm sends the pattern once and returns the number of compared elements. It returns a *wrongError
// if elements are wrong.
func verifyForm(ctx context.Context, f *form) (int64, error) { return check(ctx, f, taskVerify) }

// recheckForm compares the result of the last execution.
func recheckForm(ctx context.Context, f *form) (int64, error) { return check(ctx, f, taskRecheck) }

func check(ctx context.Context, f *form, kind string) (int64, error) {
	t := f.task
	t.Kind = kind
	reps, err := f.group.do(ctx, t)
	if err != nil {
		return 0, err
	}

	var checked int64
	for i, r := range reps {
		if r.Wrong > 0 {
			return 0, &wrongError{Rank: i, Wrong: r.Wrong, Checked: r.Checked, First: r.First, InPlace: t.InPlace}
		}
		checked += r.Checked
	}

	return checked, nil
}
