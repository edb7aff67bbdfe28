package comm

import (
	"context"
	"maps"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// collective measures one of NCCL's collectives. Parameters: nccl_dtype,
// num_gpus, message_size (elements) and optionally method.
func (h *host) collective(ctx context.Context, p *params, op string) (worker.Row, error) {
	dt := p.dataType("nccl_dtype", typeWords()...)
	gpus := int(p.whole("num_gpus", 1))
	elements := p.whole("message_size", 1)
	method, err := methodOf(p.text("method"), h.options, h.settings, MethodEager)
	if err != nil {
		p.fail(worker.ClassCollectorBug, "%v", err)
	}
	if p.err != nil {
		return nil, p.err
	}
	l, err := newLayout(op, dt, gpus, elements)
	if err != nil {
		return nil, failure(worker.ClassUnsupportedConfig, "%v", err)
	}
	if err := h.enough(gpus); err != nil {
		return nil, err
	}
	c, own := h.threads, true
	if method == MethodGraph {
		c, own = h.procs, false
	}
	c.limit = h.options.limit
	t := task{Op: op, Type: dt, Ranks: gpus, Elements: elements, Fault: h.options.faultFor(p)}
	room := max(l.send, l.recv) * l.size
	if err := c.reserve(ctx, task{Ranks: gpus, Send: l.send * l.size, Recv: room}); err != nil {
		return nil, failureOf(err, own)
	}
	if err := c.join(ctx, gpus); err != nil {
		return nil, failureOf(err, own)
	}
	row, err := h.measured(ctx, c, t, l, method)
	if err != nil {
		return nil, failureOf(err, own)
	}
	maps.Copy(row, worker.Row{
		"op_name": op, "kernel_source": "NCCL", "nccl_version": h.version, "nccl_env": h.env,
	})
	return row, nil
}

// measured checks a case and times it, out of place and in place where there is
// such a form. The columns without a suffix are those of the out-of-place form.
func (h *host) measured(ctx context.Context, c *crew, t task, l layout, method string) (worker.Row, error) {
	graph := method == MethodGraph
	newForm := func(inPlace bool) *form {
		f := &form{crew: c, clock: h.node.Clock, settings: h.settings, task: t, bytes: l.bytes, graph: graph}
		f.task.InPlace = inPlace
		if !inPlace {
			f.trace = h.trace
		}
		return f
	}
	forms := []*form{newForm(false)}
	if l.inPlace && h.options.inPlace {
		forms = append(forms, newForm(true))
	}
	var checked int64
	for _, f := range forms {
		n, err := verifyForm(ctx, f, taskVerify)
		if err != nil {
			return nil, err
		}
		checked += n
	}
	for open := true; open; {
		open = false
		for _, f := range forms {
			if f.settled() {
				continue
			}
			if err := f.pass(ctx); err != nil {
				return nil, err
			}
			open = open || !f.settled()
		}
	}
	// Once more after the timed executions: the same data went through the same
	// buffers, and a race shows late.
	n, err := repeatCheck(ctx, forms[0])
	if err != nil {
		return nil, err
	}
	checked += n
	if graph {
		drop := t
		drop.Kind = taskDrop
		if _, err := c.do(ctx, drop); err != nil {
			return nil, err
		}
	}
	res := forms[0].series.result(graph, h.settings.Protocol)
	row := worker.Row(res.Columns())
	alg, bus := l.gigabytesPerSecond(res.Latency / 1e3)
	maps.Copy(row, worker.Row{
		"method": method, "bytes": l.bytes, "algbw_gb_s": alg, "busbw_gb_s": bus,
		"rank_spread": measure.Median(forms[0].series.spreads) - 1, "checked": checked,
	})
	if len(forms) > 1 {
		in := forms[1].series.result(graph, h.settings.Protocol)
		alg, bus := l.gigabytesPerSecond(in.Latency / 1e3)
		maps.Copy(row, worker.Row{
			"latency_in_place": in.Latency, "rel_stdev_in_place": in.RelStdev, "samples_in_place": in.Samples,
			"algbw_in_place_gb_s": alg, "busbw_in_place_gb_s": bus,
		})
	}
	return row, nil
}

// verifyForm does a checking task and returns how many elements were compared.
func verifyForm(ctx context.Context, f *form, kind string) (int64, error) {
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

// repeatCheck executes the out-of-place form once more and checks the result:
// the in-place form has been using the same receive buffer. What was timed is
// what is checked: a graph where there is one.
func repeatCheck(ctx context.Context, f *form) (int64, error) {
	t := f.task
	t.Kind, t.N = taskWarm, 1
	if f.graph {
		t.Kind = taskReplay
	}
	if _, err := f.crew.do(ctx, t); err != nil {
		return 0, err
	}
	return verifyForm(ctx, f, taskRecheck)
}
