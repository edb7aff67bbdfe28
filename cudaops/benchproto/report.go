package benchproto

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"aicplan/cudaops/measure"
)

// Report compares protocols.
type Report struct {
	Device    string    `json:"device"`
	Shapes    []Shape   `json:"shapes"`
	Protocols []Summary `json:"protocols"`
	// Floor is how well the settled protocol repeats; nil where it was not run twice.
	Floor *Floor `json:"settled_against_itself,omitempty"`
	Runs  []Run  `json:"runs"`
}

// Quantiles are percentiles of a ratio over the shapes.
type Quantiles struct {
	P5  float64 `json:"p5"`
	P50 float64 `json:"p50"`
	P75 float64 `json:"p75"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Summary is one protocol over its runs.
type Summary struct {
	Protocol string `json:"protocol"`
	Runs     int    `json:"runs"`
	// Spread is max/min of a shape over the runs; 0 with fewer than two runs.
	Spread Quantiles `json:"spread"`
	// Published is our median over the runs / the published latency; 0 without
	// published latencies.
	Published Quantiles `json:"vs_published"`
	// Comparable is that of the shapes whose published latency is from ComparableFromMS
	// to ComparableToMS.
	Comparable Quantiles `json:"vs_published_comparable"`
	// Settled is our median over the runs / the settled protocol's mean, over the
	// shapes that both have; Heavy is the part from HeavyMS up, Light the rest. 0
	// where the settled protocol was not run.
	Settled Quantiles `json:"vs_settled"`
	Heavy   Quantiles `json:"vs_settled_heavy"`
	Light   Quantiles `json:"vs_settled_light"`
	// Rate is in cases per second of wall time, Busy the share of it in which the
	// device executed: executions times latency, so an estimate.
	Rate    float64  `json:"cases_per_second"`
	Busy    float64  `json:"busy_share"`
	Looks   float64  `json:"looks_share"` // second looks per case
	Buckets []Bucket `json:"buckets"`
	Errors  int      `json:"errors"`
}

// Published rows below ComparableFromMS have a share of a graph's launch in them, and
// those above ComparableToMS are at the clock of a power cap that had acted for a
// while: rows of the recovered point are neither.
const (
	ComparableFromMS = 0.05
	ComparableToMS   = 1
)

// Bucket is the part of the shapes in a range of latency.
type Bucket struct {
	FromMS    float64   `json:"from_ms"`
	ToMS      float64   `json:"to_ms"`
	Shapes    int       `json:"shapes"`
	Spread    Quantiles `json:"spread"`
	Published Quantiles `json:"vs_published"`
}

// bounds of the histogram, in milliseconds.
var bounds = []float64{0, 0.005, 0.01, 0.02, 0.05, 0.2, 1, 5, math.Inf(1)}

// NewReport sums runs up.
func NewReport(device string, shapes []Shape, runs []Run) *Report {
	r := &Report{Device: device, Shapes: shapes, Runs: runs, Floor: floor(shapes, runs)}
	truth := settledLatencies(shapes, runs)
	for _, p := range Protocols {
		var mine []Run
		for _, x := range runs {
			if x.Protocol == p {
				mine = append(mine, x)
			}
		}
		if len(mine) > 0 {
			r.Protocols = append(r.Protocols, summarise(p, shapes, mine, truth))
		}
	}
	return r
}

// row is one shape over the runs of a protocol.
type row struct{ latency, spread, published float64 }

func summarise(protocol string, shapes []Shape, runs []Run, truth []float64) Summary {
	s := Summary{Protocol: protocol, Runs: len(runs)}
	var rows []row
	var settled, heavy, light, comparable []float64
	measured := 0
	for i, shape := range shapes {
		var xs []float64
		for _, r := range runs {
			if l := r.Rows[i].Latency; l > 0 {
				xs = append(xs, l)
			}
		}
		measured += len(xs)
		if protocol == Settled && len(xs) > 0 {
			// The lighter shapes are in some of its runs.
		} else if len(xs) < len(runs) {
			s.Errors++
			continue
		}
		x := row{latency: measure.Median(xs)}
		if len(xs) > 1 {
			x.spread = 1 + measure.Spread(xs)
		}
		if shape.PublishedMS > 0 {
			x.published = x.latency / shape.PublishedMS
			if shape.PublishedMS >= ComparableFromMS && shape.PublishedMS <= ComparableToMS {
				comparable = append(comparable, x.published)
			}
		}
		rows = append(rows, x)
		if truth[i] > 0 {
			settled = append(settled, x.latency/truth[i])
			if shape.heavy() {
				heavy = append(heavy, x.latency/truth[i])
			} else {
				light = append(light, x.latency/truth[i])
			}
		}
	}
	var seconds, busy, looks float64
	for _, r := range runs {
		seconds += r.Seconds
		busy += r.Busy
		looks += float64(r.Looks)
	}
	cases := float64(measured)
	s.Rate, s.Busy = cases/seconds, busy/seconds
	if cases > 0 {
		s.Looks = looks / cases
	}
	s.Spread, s.Published = quantiles(rows)
	s.Settled, s.Heavy, s.Light, s.Comparable = quantilesOf(settled), quantilesOf(heavy), quantilesOf(light), quantilesOf(comparable)
	for i := 1; i < len(bounds); i++ {
		b := Bucket{FromMS: bounds[i-1], ToMS: bounds[i]}
		in := slices.DeleteFunc(slices.Clone(rows), func(x row) bool { return x.latency < b.FromMS || x.latency >= b.ToMS })
		if b.Shapes = len(in); b.Shapes == 0 {
			continue
		}
		if math.IsInf(b.ToMS, 1) {
			b.ToMS = 0 // open; JSON has no infinity
		}
		b.Spread, b.Published = quantiles(in)
		s.Buckets = append(s.Buckets, b)
	}
	return s
}

func quantiles(rows []row) (spread, published Quantiles) {
	var a, b []float64
	for _, r := range rows {
		if r.spread > 0 {
			a = append(a, r.spread)
		}
		if r.published > 0 {
			b = append(b, r.published)
		}
	}
	return quantilesOf(a), quantilesOf(b)
}

func quantilesOf(xs []float64) Quantiles {
	if len(xs) == 0 {
		return Quantiles{}
	}
	p := func(q float64) float64 { return measure.Percentile(xs, q) }
	return Quantiles{P5: p(.05), P50: p(.5), P75: p(.75), P95: p(.95), P99: p(.99)}
}

// Goals are what the recovered point is held to on an otherwise idle GPU.
type Goals struct {
	SpreadP50, SpreadP95      float64
	Rate                      float64
	PublishedP50              float64 // of comparable shapes, distance from 1
	PublishedP5, PublishedP95 float64
}

// DefaultGoals are for an H200 and the sample by rank.
func DefaultGoals() Goals {
	return Goals{SpreadP50: 1.006, SpreadP95: 1.022, Rate: 150, PublishedP50: 0.02, PublishedP5: 0.88, PublishedP95: 1.08}
}

// Misses lists the goals that the recovered point missed; none means passed.
func (r *Report) Misses(g Goals) []string {
	var out []string
	for _, s := range r.Protocols {
		if s.Protocol != Recovered {
			continue
		}
		miss := func(bad bool, format string, args ...any) {
			if bad {
				out = append(out, fmt.Sprintf(format, args...))
			}
		}
		miss(s.Errors > 0, "%d shapes were not measured in every run", s.Errors)
		miss(s.Runs < 2, "one run says nothing about spread")
		miss(s.Spread.P50 > g.SpreadP50, "spread p50 %.4f, at most %.4f", s.Spread.P50, g.SpreadP50)
		miss(s.Spread.P95 > g.SpreadP95, "spread p95 %.4f, at most %.4f", s.Spread.P95, g.SpreadP95)
		miss(s.Rate < g.Rate, "%.1f cases/s, at least %.1f", s.Rate, g.Rate)
		if c := s.Comparable; c.P50 > 0 {
			const of = "against the published table, from 0.05 to 1 ms:"
			miss(math.Abs(c.P50-1) > g.PublishedP50, "%s median %.4f, within %.2f of 1", of, c.P50, g.PublishedP50)
			miss(c.P5 < g.PublishedP5, "%s p5 %.4f, at least %.2f", of, c.P5, g.PublishedP5)
			miss(c.P95 > g.PublishedP95, "%s p95 %.4f, at most %.2f", of, c.P95, g.PublishedP95)
		}
		return out
	}
	return []string{"the protocol recovered was not run"}
}

// Text writes the comparison as tables.
func (r *Report) Text(w io.Writer) error {
	fmt.Fprintf(w, "%s, %d bfloat16 products\n", r.Device, len(r.Shapes))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "protocol\truns\tcases/s\tbusy\tlooks\tspread p50\tp75\tp95\tp99\tvs settled from 0.03 ms p5\tp50\tp95\tbelow p5\tp50\tp95\tvs published p5\tp50\tp95\t")
	for _, s := range r.Protocols {
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%.0f %%\t%.0f %%\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.Protocol, s.Runs, s.Rate, 100*s.Busy, 100*s.Looks,
			num(s.Spread.P50), num(s.Spread.P75), num(s.Spread.P95), num(s.Spread.P99),
			num(s.Heavy.P5), num(s.Heavy.P50), num(s.Heavy.P95), num(s.Light.P5), num(s.Light.P50), num(s.Light.P95), num(s.Published.P5), num(s.Published.P50), num(s.Published.P95))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Protocols {
		if s.Errors > 0 {
			fmt.Fprintf(w, "%s: %d of %d shapes are left out, which were not measured in each of its runs%s\n", s.Protocol, s.Errors, len(r.Shapes), r.firstError(s.Protocol))
		}
	}
	if f := r.Floor; f != nil {
		fmt.Fprintf(w, "settled against itself, one half of its %d orders over the other: p5 %s, p50 %s, p95 %s from 0.03 ms; %s, %s, %s below\n",
			f.Orders, num(f.Heavy.P5), num(f.Heavy.P50), num(f.Heavy.P95), num(f.Light.P5), num(f.Light.P50), num(f.Light.P95))
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "protocol\tlatency\tshapes\tspread p50\tp95\tvs published p50\tp5\tp95\t")
	for _, s := range r.Protocols {
		for _, b := range s.Buckets {
			span := fmt.Sprintf("%g to %g ms", b.FromMS, b.ToMS)
			if b.ToMS == 0 {
				span = fmt.Sprintf("over %g ms", b.FromMS)
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t\n", s.Protocol, span, b.Shapes,
				num(b.Spread.P50), num(b.Spread.P95), num(b.Published.P50), num(b.Published.P5), num(b.Published.P95))
		}
	}
	return t.Flush()
}

// firstError is one reason why a protocol lacks shapes.
func (r *Report) firstError(protocol string) string {
	for _, run := range r.Runs {
		if run.Protocol == protocol && len(run.Errors) > 0 {
			return "; the first error: " + run.Errors[0]
		}
	}
	return ""
}

func num(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", v)
}
