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

// Limit is the largest accepted median error, or 0 if nothing was compared.
func (c Comparison) Limit() float64 {
	if len(c.Columns) == 0 {
		return 0
	}
	return c.Columns[0].LimitP50
}

// HasKernels reports whether the kernels of a workload are known.
func (c Comparison) HasKernels(w results.Workload) bool {
	return slices.ContainsFunc(w.Phases, func(p results.PhaseCompare) bool { return p.Kernels != nil })
}

// Parts counts the workloads whose prediction lists its parts.
func (c Comparison) Parts() int {
	n := 0
	for _, w := range c.Workloads {
		if len(w.Phases) > 0 {
			n++
		}
	}
	return n
}

// Varying are the positions of the key's columns whose values differ between
// workloads, or all positions if there is one workload.
func (c Comparison) Varying() []int {
	var out []int
	for i := range c.Key {
		if len(c.Workloads) == 1 || slices.ContainsFunc(c.Workloads,
			func(w results.Workload) bool { return w.Key[i] != c.Workloads[0].Key[i] }) {
			out = append(out, i)
		}
	}
	return out
}

// Common writes what all workloads have: "tensor_parallel_size 1, osl 128".
func (c Comparison) Common() string {
	varying := c.Varying()
	var out []string
	for i, k := range c.Key {
		if !slices.Contains(varying, i) && len(c.Workloads) > 0 {
			out = append(out, k+" "+c.Workloads[0].Key[i])
		}
	}

	return strings.Join(out, ", ")
}

// Name returns the values that distinguish a workload from the others: "isl 1024, concurrency 8".
func (c Comparison) Name(w results.Workload) string {
	var out []string
	for _, i := range c.Varying() {
		out = append(out, c.Key[i]+" "+w.Key[i])
	}
	return strings.Join(out, ", ")
}

// Watched reports whether telemetry watched the GPUs of a workload.
func (c Comparison) Watched() bool {
	return slices.ContainsFunc(c.Workloads, func(w results.Workload) bool { return w.ClockMHz != nil || w.PowerW != nil })
}

// Queued reports whether a server reported the queueing time of requests.
func (c Comparison) Queued() bool {
	return slices.ContainsFunc(c.Workloads, func(w results.Workload) bool { return w.QueueMs != nil })
}

// QueueText describes the share that the server's queue explains, or "" if it is unknown.
func (c Comparison) QueueText() string {
	q := c.Queue
	if q == nil {
		return ""
	}
	return fmt.Sprintf("By the metrics of the server, %s of ttft was its queue (median of %s). Against ttft without it the predictions are off by p50 %s, p95 %s; that is not judged, because a prediction may have a queue of its own.",
		Percent(q.Share), textutil.Some(q.Compared, "workload"), Percent(q.P50), Percent(q.P95))
}

// WarningText returns the warnings of the prediction package, or "".
func (c Comparison) WarningText() string {
	if c.Warned == 0 {
		return ""
	}
	return fmt.Sprintf("%s with a warning of the package: %s", textutil.Some(c.Warned, "prediction"), c.Warning)
}

// Part is a class of a phase with what it contributes to the error.
type Part struct {
	Class, Source       string
	Predicted, Measured *float64
	// Off is measured - predicted, nil if either is unknown.
	Off *float64
}

// Account divides the time of a phase into classes of kernels, the time outside of
// kernels, and the total.
func Account(p results.PhaseCompare) []Part {
	var out []Part
	off := func(measured, predicted *float64) *float64 {
		if measured == nil || predicted == nil {
			return nil
		}
		d := *measured - *predicted
		return &d
	}

	zero := 0.0
	for _, c := range p.Parts {
		predicted := c.Predicted
		if predicted == nil && p.Predicted != nil {
			predicted = &zero // the prediction's parts are all there, and this is none
		}
		out = append(out, Part{c.Class, c.Source, c.Predicted, c.Measured, off(c.Measured, predicted)})
	}

	if p.Kernels != nil {
		out = append(out, Part{Class: "no kernel", Source: "launches, host, scheduler", Measured: p.Gap, Off: p.Gap})
	}

	return append(out, Part{Class: "in all", Predicted: p.Predicted, Measured: p.Measured,
		Off: off(p.Measured, p.Predicted)})
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
