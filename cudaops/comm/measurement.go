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
	// visit works on the case; done says that row is its result. An error ends
	// the case.
	visit(ctx context.Context) (row worker.Row, done bool, err error)
}

// once is a visitor that needs one visit.
type once func(ctx context.Context) (worker.Row, error)

func (f once) visit(ctx context.Context) (worker.Row, bool, error) {
	row, err := f(ctx)
	return row, err == nil, err
}

// measurement is a case of ranks that send to each other: it is checked, timed
// in passes, and checked again.
type measurement struct {
	crew     *crew
	own      bool // the ranks are threads of this process
	task     task
	layout   layout
	method   string
	settings measure.Settings
	// prepare makes the crew ready for the case, whatever it did before.
	prepare func(context.Context) error
	columns worker.Row // in addition to those of the measurement

	forms   []*form
	checked int64
	begun   bool
}

func (h *host) measurement(c *crew, t task, l layout, method string) *measurement {
	m := &measurement{crew: c, task: t, layout: l, method: method, settings: h.settings}
	newForm := func(inPlace bool) *form {
		f := &form{
			crew: c, clock: h.node.Clock, settings: h.settings, task: t, bytes: l.bytes, graph: method == MethodGraph,
		}
		f.task.InPlace = inPlace
		return f
	}
	m.forms = []*form{newForm(false)}
	if l.inPlace && h.options.inPlace {
		m.forms = append(m.forms, newForm(true))
	}
	return m
}

// visit makes one pass over each form that needs one.
func (m *measurement) visit(ctx context.Context) (worker.Row, bool, error) {
	row, done, err := m.work(ctx)
	if err != nil {
		return nil, false, failureOf(err, m.own)
	}
	return row, done, nil
}

func (m *measurement) work(ctx context.Context) (worker.Row, bool, error) {
	if err := m.prepare(ctx); err != nil {
		return nil, false, err
	}
	// The places of the ranks' memory may have changed since the last visit.
	for _, f := range m.forms {
		f.task.Peers = m.crew.places
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

// finish checks once more what was timed, a graph where there is one: a race
// shows late.
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
	if _, err := m.crew.do(ctx, t); err != nil {
		return err
	}
	if n, err = recheckForm(ctx, f); err != nil {
		return err
	}
	m.checked += n
	return m.release(ctx)
}

// release drops the graphs of the case: the ranks hold those of one case, and
// others are visited before this one comes again. A graph that is captured anew
// shows what differs between captures, too: a serving process lives with one of
// them, and does not choose which.
func (m *measurement) release(ctx context.Context) error {
	if m.method != MethodGraph {
		return nil
	}
	t := m.forms[0].task
	t.Kind = taskDrop
	if _, err := m.crew.do(ctx, t); err != nil {
		return err
	}
	for _, f := range m.forms {
		f.captured = false
	}
	return nil
}

// row has the columns of the out-of-place form without a suffix.
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

// visits says what every visit to the out-of-place form found: the median over its
// blocks, and the 10th and 90th percentile over its replays' means, in microseconds.
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

// verifyForm sends the pattern once and returns how many elements were
// compared; a *wrongError says which were wrong.
func verifyForm(ctx context.Context, f *form) (int64, error) { return check(ctx, f, taskVerify) }

// recheckForm compares what the last execution left.
func recheckForm(ctx context.Context, f *form) (int64, error) { return check(ctx, f, taskRecheck) }

func check(ctx context.Context, f *form, kind string) (int64, error) {
	t := f.task
	t.Kind = kind
	reps, err := f.crew.do(ctx, t)
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
