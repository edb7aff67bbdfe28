package trace

import (
	"math"
	"strings"
)

// interval is the time interval [start, end) in nanoseconds.
type interval struct{ start, end int64 }

// kernel is one execution of a kernel.
type kernel struct {
	interval
	name int32  // index into device.names
	mark uint16 // identifies the launch, 0 if unknown
	detail
}

// detail is the information that PyTorch adds to collectives of its process groups.
type detail struct {
	group int32 // index into device.groups, 0 if no group is named
	size  int64 // number of ranks in the group, 0 if unknown
	bytes int64 // larger side of the message, 0 if unknown
}

// span is a named range: a step of the profiler or of a serving engine.
type span struct {
	interval
	name   string
	onGPU  bool   // projected onto the device by the profiler
	device string // device of the projection, or ""
}

// device collects the kernels of one device. They are packed, because a trace may have millions of them.
type device struct {
	id      string
	index   map[string]int32 // kernel name -> names
	names   []kernelName
	groups  []string // process groups; the first has no name
	groupOf map[string]int32

	kernels     int64
	first, last int64
	recent      []kernel // kernels that are not packed yet
	runs        []packed
	calls       map[callKey]int
}

// kernelName is a distinct kernel name with its rule.
type kernelName struct {
	name  string
	rule  int // index of the rule, -1 for compute
	count int64
	sum   int64 // sum of the durations
}

// callKey identifies collectives that correspond to each other on different ranks.
type callKey struct{ kind, group string }

// recording is the data collected from one file.
type recording struct {
	rules   Rules
	classes map[string]int // rule by kernel name, across devices
	devices map[string]*device
	order   []string
	ranges  []span
	events  int64
	skipped int64 // kernels without usable times
	unsteps int64 // steps without usable times
	broken  int64 // events that cannot be parsed
	wrong   error // error of the first broken event
	twice   int64 // duplicate kernels
	meta    Meta
	cut     string // why the file is truncated, or ""
	behind  string // what follows after the trace, or ""
	summary bool   // the file contains only sums over kernels
}

func newRecording(rules Rules) *recording {
	return &recording{rules: rules, classes: map[string]int{}, devices: map[string]*device{}}
}

func (r *recording) device(id string) *device {
	d := r.devices[id]
	if d == nil {
		d = &device{
			id: id, index: map[string]int32{}, groups: []string{""}, groupOf: map[string]int32{"": 0},
			first: math.MaxInt64, last: math.MinInt64, calls: map[callKey]int{},
		}
		r.devices[id] = d
		r.order = append(r.order, id)
	}
	return d
}

// Limits of valid times: 73 years from the epoch, and three days for one kernel.
const (
	farthest = 1 << 61
	longest  = 1 << 48
)

// usable reports whether start and duration in nanoseconds are plausible.
func usable(start, dur int64) bool {
	return dur >= 0 && dur <= longest && start > -farthest && start < farthest
}

// plus adds two times and saturates at the largest int64.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// nameOf returns the index of a kernel's name and adds the name if it is new.
func (r *recording) nameOf(d *device, name []byte) int32 {
	i, ok := d.index[string(name)]
	if ok {
		return i
	}

	text := strings.ToValidUTF8(string(name), "\uFFFD")
	rule, known := r.classes[text]
	if !known {
		if rule = r.rules.match(text); rule >= 0 && r.rules[rule].Kind == Compute {
			rule = -1
		}
		r.classes[text] = rule
	}

	i = int32(len(d.names))
	d.names = append(d.names, kernelName{name: text, rule: rule})
	d.index[string(name)] = i

	return i
}

// add records an execution of a kernel. mark identifies its launch, group is the process group of a
// collective.
func (r *recording) add(d *device, name []byte, iv interval, mark uint16, dt detail, group string) {
	i := r.nameOf(d, name)
	n := &d.names[i]
	n.count++
	n.sum = plus(n.sum, iv.end-iv.start)

	if n.rule >= 0 {
		g, ok := d.groupOf[group]
		if !ok {
			g = int32(len(d.groups))
			d.groups, d.groupOf[group] = append(d.groups, group), g
		}
		dt.group = g
		d.calls[callKey{r.rules[n.rule].Kind, group}]++
	} else {
		dt = detail{}
	}

	d.kernels++
	d.first, d.last = min(d.first, iv.start), max(d.last, iv.end)
	if d.recent = append(d.recent, kernel{interval: iv, name: i, mark: mark, detail: dt}); len(d.recent) == packSize {
		d.pack()
	}
}

// drop reverts what add has counted for a duplicate kernel.
func (r *recording) drop(d *device, k kernel) {
	n := &d.names[k.name]
	n.count--
	n.sum -= k.end - k.start
	d.kernels--
	r.twice++
}

// markOf returns a hash of stream and launch, or 0 if the file does not number launches. A stream runs one
// kernel at a time, so two kernels with the same mark and the same times are duplicates.
func markOf(stream, launch []byte) uint16 {
	if len(launch) == 0 || string(launch) == "0" {
		return 0
	}

	const values = 1<<14 - 1 // fits into two varint bytes
	h := uint32(0)
	for _, b := range stream {
		h = h*31 + uint32(b)
	}

	h = h*31 + '/'
	for _, b := range launch {
		h = h*31 + uint32(b)
	}

	return uint16(h%values) + 1
}

// addMany records n executions of a kernel of which only the total time is known.
func (r *recording) addMany(d *device, name []byte, n, sum int64) {
	of := &d.names[r.nameOf(d, name)]
	of.count, of.sum, d.kernels = plus(of.count, n), plus(of.sum, sum), plus(d.kernels, n)
}
