package trace

import (
	"cmp"
	"maps"
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
	Events  int64  `json:"events"`
	Kernels int64  `json:"kernels"`
	Error   string `json:"error,omitempty"` // why there are no figures

	// truncated file, data after its end, kernels without times, or a summary
	Warning  string `json:"warning,omitempty"`
	SpanNs   *int64 `json:"span_ns"`       // from the first start to the last end of a kernel
	BusyNs   *int64 `json:"busy_union_ns"` // at least one kernel is running
	IdleNs   *int64 `json:"idle_ns"`       // no kernel is running: span - busy
	Parts           // over the whole span
	Steps    int    `json:"steps"`
	StepMark string `json:"step_mark,omitempty"` // which ranges were used as steps
	PerStep  []Step `json:"per_step"`

	// Phases are the phases of a batch, if the names of the steps contain the phase as in vLLM.
	Phases []Phase `json:"phases,omitempty"`

	Collectives []Collective `json:"collectives"`
	Rules       []RuleShare  `json:"rules"`
	Top         []KernelTime `json:"top_kernels"`

	// Operators are those of the rank's execution trace, if there is one.
	Operators []Operator `json:"operators,omitempty"`

	// WaitNs is how much longer this rank's collectives took than those of the fastest rank, summed over
	// the collectives that are present on all compared ranks. It is null for a single file.
	WaitNs *int64 `json:"wait_ns"`

	// Imbalance is the largest busy time of the compared ranks, divided by the smallest. It is null for a
	// single rank.
	Imbalance *float64 `json:"load_imbalance"`

	// CopyNs is the time in which at least one copy or memset runs. It is null if the file does not record
	// them. SMCoverage is the mean share of SMs with a block of the kernel, weighted by duration, in percent.
	// It is null if no kernel has a grid, or the number of SMs is unknown.
	CopyNs     *int64   `json:"copy_union_ns"`
	SMCoverage *float64 `json:"sm_coverage_pct"`

	// calls are the durations of the collectives in order, for Align.
	calls map[callKey][]int64
	cut   bool
	lacks bool
}

// Truncated reports whether the file is truncated.
func (a *Analysis) Truncated() bool { return a.cut }

// Incomplete reports whether sums over the kernels or the steps of the file are or may be too small,
// because the file is truncated, an event cannot be parsed, or an event has no usable time. Warning
// contains the reason.
func (a *Analysis) Incomplete() bool { return a.lacks }

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
	blank := func(device string) *Analysis {
		return &Analysis{
			File: file, Format: format, Device: device, Meta: r.meta, Events: r.events, Warning: r.warning(),
			cut:     r.cut != "",
			lacks:   r.cut != "" || r.broken > 0 || r.skipped > 0 || r.unsteps > 0,
			PerStep: []Step{}, Collectives: []Collective{}, Rules: []RuleShare{}, Top: []KernelTime{},
		}
	}

	r.calls.flush(r)
	r.order = slices.DeleteFunc(r.order, func(key string) bool { return r.devices[key].kernels == 0 })
	if len(r.order) == 0 {
		out := blank("")
		out.Error = "no kernel of a device is in it: was the profiler started without GPU activities, or in another process than the one that runs the kernels?"
		switch {
		case r.operators != nil:
			out.Error, out.Operators = noTimes, r.largest(top)
		case r.cut != "":
			out.Error = "no kernel of a device is in the part of the file that is there"
		case r.skipped > 0:
			out.Error = "none of its kernels has a usable time"
		}
		return []*Analysis{out}
	}

	var out []*Analysis
	for _, key := range r.order {
		d := r.devices[key]
		res := blank(r.label(d))
		res.Rank = r.rankOf(d)
		out = append(out, res)
		if r.summary {
			r.sums(res, d, top)
			continue
		}
		r.evaluate(res, d, r.steps(d), top)
	}

	for _, res := range out {
		res.Warning = r.warning() // updated, because duplicate kernels are only found during evaluation
	}

	return out
}

func (r *recording) warning() string {
	var all []string
	for _, text := range []string{r.summarised(), r.cut, r.behind} {
		if text != "" {
			all = append(all, text)
		}
	}

	if r.twice > 0 {
		all = append(all, textutil.Some(int(r.twice),
			"kernel")+" with the same launch, stream and times as another counted once")
	}

	if r.broken > 0 {
		all = append(all, "left out: "+textutil.Some(int(r.broken), "event")+" that cannot be read")
	}

	if r.skipped > 0 {
		all = append(all, "left out: "+textutil.Some(int(r.skipped), "kernel")+" without a usable time")
	}

	if r.unsteps > 0 {
		all = append(all, "left out: "+textutil.Some(int(r.unsteps), "step")+" without a usable time")
	}

	return strings.Join(all, "; ")
}

func (r *recording) summarised() string {
	if !r.summary {
		return ""
	}
	return "a summary has no times of single kernels, so that only counts and sums are known; nsys stats --report cuda_gpu_trace has them"
}

// sums sets the figures of a device if only sums are known.
func (r *recording) sums(res *Analysis, d *device, top int) {
	byKind := map[string]*Collective{}
	var comm int64

	for _, n := range d.names {
		if n.kind == "" {
			continue
		}
		kind := n.kind
		if byKind[kind] == nil {
			byKind[kind] = &Collective{Kind: kind}
		}
		byKind[kind].Count = plus(byKind[kind].Count, n.count)
		byKind[kind].SumNs = plus(byKind[kind].SumNs, n.sum)
		comm = plus(comm, n.sum)
	}

	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		res.Collectives = append(res.Collectives, *byKind[kind])
	}

	res.Kernels, res.CommSumNs = d.kernels, &comm
	r.names(res, d, top)
}

// evaluate computes the figures of a device in one pass over its kernels.
func (r *recording) evaluate(res *Analysis, d *device, steps []span, top int) {
	whole := sweep{window: interval{d.first, d.last}}
	byStep := newStepping(steps)
	calls := r.newCalls(d)
	phases := newPhasing(d, steps)
	var last kernel

	for k := range d.ordered() {
		if k.mark != 0 && k.mark == last.mark && k.name == last.name && k.interval == last.interval && k.end > k.start {
			r.drop(d, k)
			continue
		}
		last = k
		kind := d.names[k.name].kind
		whole.add(k, kind != "")
		byStep.add(k, kind != "")
		phases.add(k)
		if kind != "" {
			calls.add(kind, k)
		}
	}

	res.Kernels = d.kernels
	span, busy := d.last-d.first, whole.on.length
	idle := span - busy
	res.SpanNs, res.BusyNs, res.IdleNs, res.Parts = &span, &busy, &idle, whole.parts()
	res.Collectives, res.calls = calls.finish(), calls.times
	if r.copying {
		var copying covered
		slices.SortFunc(d.copies, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
		for _, iv := range d.copies {
			copying.add(iv)
		}
		res.CopyNs = &copying.length
	}
	if d.covered > 0 {
		pct := 100 * d.coverage / d.covered
		res.SMCoverage = &pct
	}
	r.names(res, d, top)
	res.PerStep = byStep.finish()
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
	d      *device
	byKind map[string]*Collective
	busbw  map[string][]float64
	times  map[callKey][]int64
}

func (r *recording) newCalls(d *device) *collecting {
	c := &collecting{d: d, byKind: map[string]*Collective{}, busbw: map[string][]float64{},
		times: map[callKey][]int64{}}
	for key, n := range d.calls {
		c.times[key] = make([]int64, 0, n)
	}
	return c
}

func (c *collecting) add(kind string, k kernel) {
	of := c.byKind[kind]
	if of == nil {
		of = &Collective{Kind: kind}
		c.byKind[kind] = of
	}

	dur := k.end - k.start
	of.Count++
	of.SumNs = plus(of.SumNs, dur)
	key := callKey{kind, c.d.groups[k.group]}
	c.times[key] = append(c.times[key], dur)
	if k.bytes == 0 {
		return
	}

	of.Sized++
	if of.Bytes == nil {
		of.Bytes = new(int64)
	}

	*of.Bytes = plus(*of.Bytes, k.bytes)
	if k.size > 1 && dur > 0 {
		c.busbw[kind] = append(c.busbw[kind], float64(k.bytes)/float64(dur)*busFactor(kind, float64(k.size)))
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

func (r *recording) names(res *Analysis, d *device, top int) {
	sums := make([]KernelTime, len(d.names))
	var total int64
	for _, n := range d.names {
		total = plus(total, n.sum)
	}

	type named struct {
		rule int
		kind string
	}
	shares := map[named]*RuleShare{}
	for i, n := range d.names {
		sums[i] = KernelTime{Name: n.name, Kind: cmp.Or(n.kind, Compute), Count: n.count, SumNs: n.sum}
		if n.kind == "" {
			continue
		}

		s := shares[named{n.rule, n.kind}]
		if s == nil {
			s = &RuleShare{Kind: n.kind, Origin: "named by the trace", Example: n.name}
			if n.rule >= 0 {
				s.Regexp, s.Origin = r.rules[n.rule].Regexp.String(), r.rules[n.rule].Origin
			}
			shares[named{n.rule, n.kind}] = s
		}
		s.Count += n.count
		s.SumNs = plus(s.SumNs, n.sum)
		if total > 0 {
			s.SharePct = 100 * float64(s.SumNs) / float64(total)
		}
	}

	res.Rules = []RuleShare{}
	for _, key := range slices.SortedFunc(maps.Keys(shares), func(a, b named) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.kind, b.kind))
	}) {
		if s := shares[key]; s.Count > 0 {
			res.Rules = append(res.Rules, *s)
		}
	}

	slices.SortFunc(sums, func(a, b KernelTime) int {
		return cmp.Or(cmp.Compare(b.SumNs, a.SumNs), cmp.Compare(a.Name, b.Name))
	})

	res.Top = sums[:min(top, len(sums))]
}
