package trace

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"aicplan/sink/base/textutil"
)

// Analysis is the result for one device of one file. Figures that the file does not provide are null.
type Analysis struct {
	File   string `json:"file"`
	Format string `json:"format"` // kineto, nsys
	Device string `json:"device"` // index of the device as written in the file, "" if there are no kernels
	Meta
	Events int64 `json:"events"`
	Figures
	BusyNs   *int64 `json:"busy_union_ns"`       // at least one kernel is running
	StepMark string `json:"step_mark,omitempty"` // which ranges were used as steps
	PerStep  []Step `json:"per_step"`

	// Phases are the phases of a batch, if the names of the steps contain the phase as in vLLM.
	Phases []Phase `json:"phases,omitempty"`

	Collectives []Collective `json:"collectives"`
	Rules       []RuleShare  `json:"rules"`
	Top         []KernelTime `json:"top_kernels"`

	// Imbalance is the largest busy time of the compared ranks, divided by the smallest. It is null for a
	// single rank.
	Imbalance *float64 `json:"load_imbalance"`

	// Hosts are the ids of the processes that run operators and launch kernels.
	Hosts []string `json:"-"`

	// Truncated is true if the file is truncated.
	Truncated bool `json:"-"`

	// Incomplete is true if sums over the kernels or the steps of the file are or may be too small, because the file is
	// truncated, an event cannot be parsed or has no usable time, or graphs have no kernels. Warning contains the reason.
	Incomplete bool `json:"-"`

	// calls are the durations of the collectives in order, for Align.
	calls map[callKey][]int64
}

// Figures are the sums of an analysis. Figures that the file does not provide are null.
type Figures struct {
	Kernels int64  `json:"kernels"`
	Error   string `json:"error,omitempty"` // why there are no figures

	// truncated file, data after its end, kernels without times
	Warning string `json:"warning,omitempty"`
	SpanNs  *int64 `json:"span_ns"` // from the first start to the last end of a kernel
	IdleNs  *int64 `json:"idle_ns"` // no kernel is running: span - busy
	Parts          // over the whole span
	Steps   int    `json:"steps"`

	// WaitNs is how much longer this rank's collectives took than those of the fastest rank, summed over
	// the collectives that are present on all compared ranks. It is null for a single file.
	WaitNs *int64 `json:"wait_ns"`

	// CopyNs is the time in which at least one copy or memset runs. SMCoverage is the mean share of SMs with a block of
	// the kernel, weighted by duration, in percent. It is null if no kernel has a grid, or the number of SMs is
	// unknown.
	CopyNs     *int64   `json:"copy_union_ns"`
	SMCoverage *float64 `json:"sm_coverage_pct"`
}

// Parts divides an interval on a device. Sums add up kernel times, unions count overlapping kernels once.
type Parts struct {
	CommSumNs      *int64 `json:"comm_sum_ns"`
	CommUnionNs    *int64 `json:"comm_union_ns"`
	ComputeUnionNs *int64 `json:"compute_union_ns"`
	OverlapNs      *int64 `json:"overlap_ns"`      // communication that overlaps with compute
	ExposedCommNs  *int64 `json:"exposed_comm_ns"` // communication without concurrent compute
}

// Step is one step of the program. Kernels are clipped to the step.
type Step struct {
	Name        string `json:"name"`
	StartNs     int64  `json:"start_ns"`
	WallNs      int64  `json:"wall_ns"`
	BusyNs      int64  `json:"busy_union_ns"`
	BubbleNs    int64  `json:"bubble_ns"` // wall - busy
	Kernels     int64  `json:"kernels"`
	Collectives int64  `json:"collectives"`
	Parts
}

// Collective is the summary of the collectives of one kind.
type Collective struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
	SumNs int64  `json:"sum_ns"`

	// Figures of the calls whose message size is in the trace: their number, their bytes (of the larger
	// side) and the median bus bandwidth in GB/s. The bandwidth is a lower bound, because the kernel time
	// includes waiting for peers.
	Sized    int64    `json:"sized_count"`
	Bytes    *int64   `json:"bytes"`
	BusbwP50 *float64 `json:"busbw_p50_gbps"`
}

// RuleShare is the share of kernel time that a rule, or the trace itself, classified as communication. It
// helps to detect wrong classifications.
type RuleShare struct {
	Kind     string  `json:"kind"`
	Regexp   string  `json:"regexp"` // "" if the trace names the collective
	Origin   string  `json:"origin,omitempty"`
	Count    int64   `json:"count"`
	SumNs    int64   `json:"sum_ns"`
	SharePct float64 `json:"share_pct"` // percent of the summed time of all kernels
	Example  string  `json:"example"`
}

// KernelTime is the time of all kernels with one name.
type KernelTime struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"` // kind of collective, or compute
	Count int64  `json:"count"`
	SumNs int64  `json:"sum_ns"`
}

// results evaluates a recording and returns one result per device.
func (r *recording) results(file, format string, top int) []*Analysis {
	for _, k := range r.calls.pending {
		r.add(k.d, k.name, k.iv, k.launch, r.calls.launches[k.correlation])
	}

	r.devices = slices.DeleteFunc(r.devices, func(d *device) bool { return len(d.kernels) == 0 })
	for _, d := range r.devices {
		r.twice += int64(d.sort())
	}

	blank := func() *Analysis {
		return &Analysis{
			File: file, Format: format, Meta: r.meta, Events: r.events,
			Hosts: slices.Collect(maps.Keys(r.hosts)), Figures: Figures{Warning: r.warning()},
			Truncated:  r.cut != "",
			Incomplete: r.cut != "" || r.broken > 0 || r.skipped > 0 || r.unsteps > 0 || r.graphs > 0,
			PerStep:    []Step{}, Collectives: []Collective{}, Rules: []RuleShare{}, Top: []KernelTime{},
		}
	}

	var out []*Analysis
	for _, d := range r.devices {
		res := blank()
		res.Device, res.Rank = r.label(d), r.rankOf(d)
		r.evaluate(res, d, top)
		out = append(out, res)
	}
	if out != nil {
		return out
	}

	none := blank()
	switch {
	case r.cut != "":
		none.Error = "no kernel of a device is in the part of the file that is there"
	case r.skipped > 0:
		none.Error = "none of its kernels has a usable time"
	default:
		none.Error = "no kernel of a device is in it: was the profiler started without GPU activities, or in another " +
			"process than the one that runs the kernels?"
	}
	return []*Analysis{none}
}

func (r *recording) warning() string {
	var all []string
	for _, text := range []string{r.cut, r.behind, r.fused()} {
		if text != "" {
			all = append(all, text)
		}
	}

	if r.twice > 0 {
		all = append(all, textutil.Some(int(r.twice),
			"kernel")+" with the same launch, stream and times as another counted once")
	}

	for _, lost := range []struct {
		n         int64
		what, why string
	}{
		{r.broken, "event", "that cannot be read"},
		{r.skipped, "kernel", "without a usable time"},
		{r.unsteps, "step", "without a usable time"},
		{r.graphs, "execution", "of CUDA graphs, whose kernels nsys profile records with --cuda-graph-trace=node"},
	} {
		if lost.n > 0 {
			all = append(all, "left out: "+textutil.Some(int(lost.n), lost.what)+" "+lost.why)
		}
	}

	return strings.Join(all, "; ")
}

// evaluate computes the figures of a device, whose kernels are sorted.
func (r *recording) evaluate(res *Analysis, d *device, top int) {
	steps := r.steps(d)
	whole := sweep{window: interval{d.kernels[0].start, math.MaxInt64}}
	calls := collecting{byKind: map[string]*Collective{}, busbw: map[string][]float64{}, times: map[callKey][]int64{}}
	phases := newPhasing(r.names, steps)
	times := make([]KernelTime, len(r.names))

	for _, k := range d.kernels {
		n := &r.names[k.name]
		whole.add(k, n.kind != "")
		phases.add(k)
		times[k.name].Count++
		times[k.name].SumNs = plus(times[k.name].SumNs, k.end-k.start)
		if n.kind != "" {
			calls.add(n, k.end-k.start)
		}
	}

	busy := whole.on.length
	span := whole.on.end - whole.window.start
	idle := span - busy
	res.Kernels = int64(len(d.kernels))
	res.SpanNs, res.BusyNs, res.IdleNs, res.Parts = &span, &busy, &idle, whole.parts()
	res.Collectives, res.calls = calls.finish(), calls.times

	var copying covered
	slices.SortFunc(d.copies, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	for _, iv := range d.copies {
		copying.add(iv)
	}
	res.CopyNs = &copying.length

	if d.covered > 0 {
		pct := 100 * d.coverage / d.covered
		res.SMCoverage = &pct
	}

	r.classify(res, times, top)
	res.PerStep = r.perStep(d, steps)
	res.Phases = phases.finish()
	if res.Steps = len(steps); res.Steps > 0 {
		res.StepMark = stepNames[stepRank(steps[0].name)]
		if steps[0].onGPU {
			res.StepMark += " (as the device saw it)"
		}
	}
}

// collecting accumulates the collectives of a device.
type collecting struct {
	byKind map[string]*Collective
	busbw  map[string][]float64
	times  map[callKey][]int64
}

func (c *collecting) add(n *kernelName, dur int64) {
	of := c.byKind[n.kind]
	if of == nil {
		of = &Collective{Kind: n.kind}
		c.byKind[n.kind] = of
	}

	of.Count++
	of.SumNs = plus(of.SumNs, dur)
	key := callKey{n.kind, n.group}
	c.times[key] = append(c.times[key], dur)
	if n.bytes == 0 {
		return
	}

	of.Sized++
	if of.Bytes == nil {
		of.Bytes = new(int64)
	}

	*of.Bytes = plus(*of.Bytes, n.bytes)
	if n.size > 1 && dur > 0 {
		bw := float64(n.bytes) / float64(dur) * busFactor(n.kind, float64(n.size))
		c.busbw[n.kind] = append(c.busbw[n.kind], bw)
	}
}

func (c *collecting) finish() []Collective {
	out := []Collective{}
	for _, kind := range slices.Sorted(maps.Keys(c.byKind)) {
		of := c.byKind[kind]
		if v := c.busbw[kind]; len(v) > 0 {
			slices.Sort(v)
			q := stat.Quantile(0.5, stat.Empirical, v, nil)
			of.BusbwP50 = &q
		}
		out = append(out, *of)
	}
	return out
}

// busFactor returns the ratio of bus to algorithm bandwidth for n ranks, as in nccl-tests.
func busFactor(kind string, n float64) float64 {
	switch kind {
	case "all_reduce":
		return 2 * (n - 1) / n
	case "all_gather", "reduce_scatter", "alltoall", "gather", "scatter":
		return (n - 1) / n
	}
	return 1
}

// classify sets the kernels with the largest times and the shares of the rules. times has count and time of each of
// r.names.
func (r *recording) classify(res *Analysis, times []KernelTime, top int) {
	var total int64
	shares := map[string]*RuleShare{}
	alike := map[KernelTime]int{} // indexes into res.Top by name and kind

	for i, t := range times {
		if t.Count == 0 {
			continue
		}

		n := r.names[i]
		total = plus(total, t.SumNs)
		key := KernelTime{Name: n.name, Kind: cmp.Or(n.kind, Compute)}
		at, ok := alike[key]
		if !ok {
			at, alike[key] = len(res.Top), len(res.Top)
			res.Top = append(res.Top, key)
		}
		res.Top[at].Count += t.Count
		res.Top[at].SumNs = plus(res.Top[at].SumNs, t.SumNs)
		if n.kind == "" {
			continue
		}

		rule := fmt.Sprintf("%4d %s", n.rule+1, n.kind) // in the order of the rules
		s := shares[rule]
		if s == nil {
			s = &RuleShare{Kind: n.kind, Origin: "named by the trace", Example: n.name}
			if n.rule >= 0 {
				s.Regexp, s.Origin = r.rules[n.rule].Regexp.String(), r.rules[n.rule].Origin
			}
			shares[rule] = s
		}
		s.Count += t.Count
		s.SumNs = plus(s.SumNs, t.SumNs)
	}

	for _, key := range slices.Sorted(maps.Keys(shares)) {
		s := shares[key]
		if total > 0 {
			s.SharePct = 100 * float64(s.SumNs) / float64(total)
		}
		res.Rules = append(res.Rules, *s)
	}

	slices.SortFunc(res.Top, func(a, b KernelTime) int {
		return cmp.Or(cmp.Compare(b.SumNs, a.SumNs), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	res.Top = res.Top[:min(top, len(res.Top))]
}
