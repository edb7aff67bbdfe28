package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
)

// Comparison is a gate's comparison of the predictions of workloads with their
// measurements.
type Comparison struct {
	Gate   string `json:"gate"`
	Result string `json:"result"`
	*results.Prediction
}

// comparisons are those of all gates. One that two gates made of the same data, once
// with traces, is shown once.
func comparisons(groups []results.Group) []Comparison {
	var out []Comparison
	for _, g := range groups {
		for _, c := range g.Checks {
			p, ok := results.PredictionOf(c)
			if !ok {
				continue
			}

			x := Comparison{g.Address, c.Result, p}
			at := slices.IndexFunc(out, func(o Comparison) bool { return o.same(x) })
			switch {
			case at < 0:
				out = append(out, x)
			case p.Traces != "":
				x.Gate, x.Result = out[at].Gate+" and "+x.Gate, out[at].Result
				out[at] = x
			default:
				out[at].Gate, out[at].Result = x.Gate+" and "+out[at].Gate, x.Result
			}
		}
	}

	return out
}

// same reports whether two comparisons differ only in their traces. The report shows the
// result of the gate without traces.
func (c Comparison) same(o Comparison) bool {
	return c.Predicted == o.Predicted && (c.Traces == "") != (o.Traces == "") && slices.Equal(c.Key, o.Key) &&
		slices.Equal(c.Columns, o.Columns) &&
		slices.EqualFunc(c.Workloads, o.Workloads, func(a, b results.Workload) bool { return slices.Equal(a.Key, b.Key) })
}

// HasKernels reports whether the kernels of a workload are known.
func (c Comparison) HasKernels(w results.Workload) bool {
	return slices.ContainsFunc(w.Phases, func(p results.PhaseCompare) bool { return p.Kernels != nil })
}

// Parts reports whether the prediction of a workload lists its parts.
func (c Comparison) Parts() bool {
	return slices.ContainsFunc(c.Workloads, func(w results.Workload) bool { return len(w.Phases) > 0 })
}

// varying returns the positions of the key's columns whose values differ between
// workloads, or all positions if there is one workload.
func (c Comparison) varying() []int {
	var out []int
	for i := range c.Key {
		if len(c.Workloads) == 1 || slices.ContainsFunc(c.Workloads,
			func(w results.Workload) bool { return w.Key[i] != c.Workloads[0].Key[i] }) {
			out = append(out, i)
		}
	}
	return out
}

// Common describes what all workloads have in common, or returns "".
func (c Comparison) Common() string {
	varying := c.varying()
	var out []string
	for i, k := range c.Key {
		if !slices.Contains(varying, i) && len(c.Workloads) > 0 {
			out = append(out, k+" "+c.Workloads[0].Key[i])
		}
	}

	if len(out) == 0 {
		return ""
	}
	return "All with " + strings.Join(out, ", ") + "."
}

// Name returns the values that distinguish a workload from the others: "isl 1024, concurrency 8".
func (c Comparison) Name(w results.Workload) string {
	var out []string
	for _, i := range c.varying() {
		out = append(out, c.Key[i]+" "+w.Key[i])
	}
	return strings.Join(out, ", ")
}

// Errors is the table of the errors of each column and of their limits.
func (c Comparison) Errors() *Cells {
	out := &Cells{Texts: 1, Heads: []string{"of", "compared", "error p50", "asked", "error p95", "asked",
		"predicted / measured, median"}}
	for _, x := range c.Columns {
		out.Rows = append(out.Rows, []string{x.Name, fmt.Sprint(x.Compared), Percent(x.P50), Percent(x.LimitP50),
			Percent(x.P95), Percent(x.LimitP95), fmt.Sprintf("%.3f", x.Median)})
	}
	return out
}

// Values is the table of the workloads: what distinguishes them, measured and predicted values, and what the
// server and telemetry reported if any workload has it.
func (c Comparison) Values() *Cells {
	if len(c.Workloads) == 0 {
		return nil
	}

	out := &Cells{}
	for _, i := range c.varying() {
		out.Heads = append(out.Heads, c.Key[i])
	}

	for _, v := range c.Workloads[0].Values {
		out.Heads = append(out.Heads, v.Column+" measured (ms)", "predicted (ms)", "error")
	}

	type extra struct {
		head   string
		digits bool // as a time
		of     func(results.Workload) *float64
	}
	extras := slices.DeleteFunc([]extra{
		{"server's queue (ms)", true, func(w results.Workload) *float64 { return w.QueueMs }},
		{"server's prefill (ms)", true, func(w results.Workload) *float64 { return w.PrefillMs }},
		{"SM clock (MHz)", false, func(w results.Workload) *float64 { return w.ClockMHz }},
		{"power (W)", false, func(w results.Workload) *float64 { return w.PowerW }},
	}, func(e extra) bool {
		return !slices.ContainsFunc(c.Workloads, func(w results.Workload) bool { return e.of(w) != nil })
	})
	for _, e := range extras {
		out.Heads = append(out.Heads, e.head)
	}

	for _, w := range c.Workloads {
		var row []string
		for _, i := range c.varying() {
			row = append(row, w.Key[i])
		}

		for _, v := range w.Values {
			predicted := v.Why
			if v.Predicted != nil {
				predicted = Millis(v.Predicted)
			}
			row = append(row, Millis(v.Measured), predicted, Signed(v.Error()))
		}

		for _, e := range extras {
			v := e.of(w)
			text := Millis(v)
			if v != nil && !e.digits {
				text = fmt.Sprintf("%.0f", *v)
			}
			row = append(row, text)
		}

		out.Rows = append(out.Rows, row)
	}

	return out
}

// QueueText describes the share that the server's queue explains, or "" if it is unknown.
func (c Comparison) QueueText() string {
	q := c.Queue
	if q == nil {
		return ""
	}
	return fmt.Sprintf("By the metrics of the server, %s of ttft was its queue (median of %s). Against ttft without it "+
		"the predictions are off by p50 %s, p95 %s; that is not judged, because a prediction may have a queue of its own.",
		Percent(q.Share), textutil.Some(q.Compared, "workload"), Percent(q.P50), Percent(q.P95))
}

// WarningText returns the warnings of the prediction package, or "".
func (c Comparison) WarningText() string {
	if c.Warned == 0 {
		return ""
	}
	return fmt.Sprintf("%s with a warning of the package: %s", textutil.Some(c.Warned, "prediction"), c.Warning)
}

// Account divides the time of a phase in ms into classes of kernels, the time outside of
// kernels, and the total.
func Account(p results.PhaseCompare) *Cells {
	out := &Cells{Texts: 1, Heads: []string{"op", "predicted", "measured", "difference"}}
	add := func(name string, predicted, measured, base *float64) {
		row := []string{name, "-", Millis(measured), Millis(nil)}
		if predicted != nil {
			row[1] = Millis(predicted)
		}
		if measured != nil && base != nil {
			d := *measured - *base
			row[3] = Millis(&d)
		}
		out.Rows = append(out.Rows, row)
	}

	zero := 0.0
	for _, c := range p.Parts {
		base := c.Predicted
		if base == nil && p.Predicted != nil {
			base = &zero // the prediction lists all its parts, and this is none of them
		}
		add(strings.TrimSpace(c.Class+" "+c.Source), c.Predicted, c.Measured, base)
	}

	if p.Kernels != nil {
		add("no kernel: launches, host, scheduler", nil, p.Gap, &zero)
	}

	add("in all", p.Predicted, p.Measured, p.Predicted)
	return out
}

// Signed writes an error as a percentage with its sign; "-" if it is unknown.
func Signed(e *float64) string {
	if e == nil {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100**e)
}

// Millis writes a time in ms, or that it is not known.
func Millis(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.*f", max(0, 2-int(math.Floor(math.Log10(math.Max(math.Abs(*v), 0.01))))), *v)
}
