package trace

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Analysis is what one file says of one device. A figure that the file cannot
// give is null.
type Analysis struct {
	File   string `json:"file"`
	Format string `json:"format"` // kineto, nsys
	Device string `json:"device"` // index of the device as the file writes it, "" when there are no kernels
	Meta
	Events   int64  `json:"events"`
	Kernels  int64  `json:"kernels"`
	Error    string `json:"error,omitempty"`   // why there are no figures
	Warning  string `json:"warning,omitempty"` // a file that is cut, events without times
	SpanNs   *int64 `json:"span_ns"`           // first start to last end of a kernel
	BusyNs   *int64 `json:"busy_union_ns"`     // some kernel runs
	IdleNs   *int64 `json:"idle_ns"`           // no kernel runs: span - busy
	Parts           // of the whole span
	Steps    int    `json:"steps"`
	StepMark string `json:"step_mark,omitempty"` // what the steps were told by
	PerStep  []Step `json:"per_step"`
	// Phases are those of a batch whose steps say what they are: vLLM's.
	Phases []Phase `json:"phases,omitempty"`

	Collectives []Collective `json:"collectives"`
	Rules       []RuleShare  `json:"rules"`
	Top         []KernelTime `json:"top_kernels"`

	// WaitNs is how long this rank's collectives took beyond the quickest rank's,
	// summed over the collectives that all given ranks have; null for one file.
	WaitNs *int64 `json:"wait_ns"`

	sequence []call
}

// Parts divide a stretch of time on a device. Sums add kernel times up, unions
// count overlapping kernels once.
type Parts struct {
	CommSumNs      *int64 `json:"comm_sum_ns"`
	CommUnionNs    *int64 `json:"comm_union_ns"`
	ComputeUnionNs *int64 `json:"compute_union_ns"`
	OverlapNs      *int64 `json:"overlap_ns"`      // communication that overlaps compute
	ExposedCommNs  *int64 `json:"exposed_comm_ns"` // communication without compute at that time
}

// Step is one step of the program, with kernels cut at its ends.
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

// Collective sums up the collectives of one kind.
type Collective struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
	SumNs int64  `json:"sum_ns"`
	// Of the calls whose message size the trace notes: how many, their bytes (the
	// larger side) and the median bus bandwidth in GB/s. A kernel waits for its
	// peers inside its own time, so the bandwidth is a lower bound.
	Sized    int64    `json:"sized_count"`
	Bytes    *int64   `json:"bytes"`
	BusbwP50 *float64 `json:"busbw_p50_gbps"`
}

// RuleShare says how much of the kernel time a rule took for communication, so
// that a wrong class is seen.
type RuleShare struct {
	Kind     string  `json:"kind"`
	Regexp   string  `json:"regexp"`
	Origin   string  `json:"origin,omitempty"`
	Count    int64   `json:"count"`
	SumNs    int64   `json:"sum_ns"`
	SharePct float64 `json:"share_pct"` // of the summed time of all kernels
	Example  string  `json:"example"`
}

// KernelTime is the time of one kernel by name.
type KernelTime struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"` // of collective, or compute
	Count int64  `json:"count"`
	SumNs int64  `json:"sum_ns"`
}

// call is a collective in a rank's sequence.
type call struct {
	kind, group string
	start, dur  int64
}

// results evaluates a recording, one result a device.
func (r *recording) results(file, format string, top int) []*Analysis {
	if len(r.order) == 0 {
		return []*Analysis{{File: file, Format: format, Meta: r.meta, Events: r.events, Warning: r.warning(),
			Error:   "no kernel of a device is in it: was the profiler started without GPU activities, or in another process than the one that runs the kernels?",
			PerStep: []Step{}, Collectives: []Collective{}, Rules: []RuleShare{}, Top: []KernelTime{}}}
	}
	steps := r.steps()
	var out []*Analysis
	for _, id := range r.order {
		res := &Analysis{File: file, Format: format, Device: id, Meta: r.meta, Events: r.events, Warning: r.warning()}
		r.evaluate(res, r.devices[id], steps, top)
		out = append(out, res)
	}
	return out
}

func (r *recording) warning() string {
	switch {
	case r.cut != "":
		return r.cut
	case r.skipped > 0:
		return "events of kernels without a usable time were left out"
	}
	return ""
}

func (r *recording) evaluate(res *Analysis, d *device, steps []span, top int) {
	slices.SortFunc(d.kernels, func(a, b kernel) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	res.Kernels = int64(len(d.kernels))
	first, last := d.kernels[0].start, d.kernels[0].end
	for _, k := range d.kernels {
		last = max(last, k.end)
	}
	busy := r.parts(&res.Parts, d, d.kernels, interval{first, last})
	span := last - first
	idle := span - busy
	res.SpanNs, res.BusyNs, res.IdleNs = &span, &busy, &idle
	r.collectives(res, d)
	r.names(res, d, top)
	res.PerStep = []Step{}
	for _, s := range steps {
		res.PerStep = append(res.PerStep, r.step(d, s))
	}
	res.Phases = r.phases(d, steps)
	if res.Steps = len(steps); res.Steps > 0 {
		res.StepMark = stepNames[stepRank(steps[0].name)]
		if steps[0].onGPU {
			res.StepMark += " (as the device saw it)"
		}
	}
}

// step evaluates the kernels that run inside s. d.kernels is in order of start.
func (r *recording) step(d *device, s span) Step {
	out := Step{Name: s.name, StartNs: s.start, WallNs: s.end - s.start}
	var in []kernel
	for _, k := range d.kernels {
		if k.start >= s.end {
			break
		}
		if k.end <= s.start {
			continue
		}
		in = append(in, k)
		// A kernel belongs to the step in which it starts.
		if k.start >= s.start {
			out.Kernels++
			if d.names[k.name].rule >= 0 {
				out.Collectives++
			}
		}
	}
	out.BusyNs = r.parts(&out.Parts, d, in, s.interval)
	out.BubbleNs = out.WallNs - out.BusyNs
	return out
}

// parts fills p from kernels, cut at the ends of window, and returns the union
// of all of them.
func (r *recording) parts(p *Parts, d *device, kernels []kernel, window interval) int64 {
	var comm, compute []interval
	var sum int64
	for _, k := range kernels {
		iv := interval{max(k.start, window.start), min(k.end, window.end)}
		if d.names[k.name].rule < 0 {
			compute = append(compute, iv)
			continue
		}
		comm = append(comm, iv)
		sum += iv.end - iv.start
	}
	comm, compute = merge(comm), merge(compute)
	cu, pu, both := length(comm), length(compute), overlap(comm, compute)
	exposed := cu - both
	*p = Parts{CommSumNs: &sum, CommUnionNs: &cu, ComputeUnionNs: &pu, OverlapNs: &both, ExposedCommNs: &exposed}
	return pu + exposed
}

func (r *recording) collectives(res *Analysis, d *device) {
	byKind := map[string]*Collective{}
	busbw := map[string][]float64{}
	res.Collectives = []Collective{}
	var kinds []string
	for _, k := range d.kernels {
		rule := d.names[k.name].rule
		if rule < 0 {
			continue
		}
		kind := r.rules[rule].Kind
		c := byKind[kind]
		if c == nil {
			c = &Collective{Kind: kind}
			byKind[kind] = c
			kinds = append(kinds, kind)
		}
		dur := k.end - k.start
		c.Count++
		c.SumNs += dur
		cl := call{kind: kind, start: k.start, dur: dur}
		if k.detail >= 0 {
			dt := d.details[k.detail]
			cl.group = dt.group
			if dt.bytes > 0 {
				c.Sized++
				if c.Bytes == nil {
					c.Bytes = new(int64)
				}
				*c.Bytes += dt.bytes
				if dt.size > 1 && dur > 0 {
					busbw[kind] = append(busbw[kind], float64(dt.bytes)/float64(dur)*busFactor(kind, float64(dt.size)))
				}
			}
		}
		res.sequence = append(res.sequence, cl)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		c := byKind[kind]
		if v := busbw[kind]; len(v) > 0 {
			slices.Sort(v)
			q := stat.Quantile(0.5, stat.Empirical, v, nil)
			c.BusbwP50 = &q
		}
		res.Collectives = append(res.Collectives, *c)
	}
}

// busFactor is nccl-tests' factor from algorithm to bus bandwidth for n ranks.
func busFactor(kind string, n float64) float64 {
	switch kind {
	case "all_reduce":
		return 2 * (n - 1) / n
	case "all_gather", "reduce_scatter", "alltoall":
		return (n - 1) / n
	}
	return 1
}

func (r *recording) names(res *Analysis, d *device, top int) {
	sums := make([]KernelTime, len(d.names))
	var total int64
	for _, k := range d.kernels {
		sums[k.name].Count++
		sums[k.name].SumNs += k.end - k.start
		total += k.end - k.start
	}
	shares := make([]RuleShare, len(r.rules))
	for i, n := range d.names {
		sums[i].Name, sums[i].Kind = n.name, Compute
		if n.rule < 0 {
			continue
		}
		rule := r.rules[n.rule]
		sums[i].Kind = rule.Kind
		s := &shares[n.rule]
		if s.Count == 0 {
			s.Kind, s.Regexp, s.Origin, s.Example = rule.Kind, rule.Regexp.String(), rule.Origin, n.name
		}
		s.Count += sums[i].Count
		s.SumNs += sums[i].SumNs
	}
	res.Rules = []RuleShare{}
	for _, s := range shares {
		if s.Count > 0 {
			if total > 0 {
				s.SharePct = 100 * float64(s.SumNs) / float64(total)
			}
			res.Rules = append(res.Rules, s)
		}
	}
	slices.SortFunc(sums, func(a, b KernelTime) int {
		return cmp.Or(cmp.Compare(b.SumNs, a.SumNs), cmp.Compare(a.Name, b.Name))
	})
	res.Top = sums[:min(top, len(sums))]
}
