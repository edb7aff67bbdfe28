package trace

import (
	"math"
	"strings"
)

// interval is a span of time on a device, [start, end), in nanoseconds.
type interval struct{ start, end int64 }

// kernel is one execution of a kernel.
type kernel struct {
	interval
	name int32  // index into device.names
	mark uint16 // tells one launch from another, 0: not told
	detail
}

// detail is what PyTorch adds to a collective of its own process groups.
type detail struct {
	group int32 // index into device.groups, 0: none is named
	size  int64 // ranks of the group, 0 unknown
	bytes int64 // the larger side of the message, 0 unknown
}

// span is a named range: a step of the profiler or of a serving engine.
type span struct {
	interval
	name   string
	onGPU  bool   // projected to the device by the profiler
	device string // it was projected to, "" where it was not
}

// device collects what one file says of one device. Kernels are kept packed,
// since a trace has millions of them.
type device struct {
	id      string
	index   map[string]int32 // kernel name -> names
	names   []kernelName
	groups  []string // process groups; the first has no name
	groupOf map[string]int32

	kernels     int64
	first, last int64
	recent      []kernel // that are not packed yet
	runs        []packed
	calls       map[callKey]int
}

// kernelName is a distinct kernel with its rule.
type kernelName struct {
	name  string
	rule  int // index of the rule, -1: compute
	count int64
	sum   int64 // of its times
}

// callKey tells collectives that may be each other's counterparts on other ranks.
type callKey struct{ kind, group string }

// recording is what a reader collects from one file.
type recording struct {
	rules   Rules
	classes map[string]int // kernel name -> rule, over all devices
	devices map[string]*device
	order   []string
	ranges  []span
	events  int64
	skipped int64 // kernels without times
	unsteps int64 // steps without times
	broken  int64 // events that are no JSON objects
	wrong   error // the first of them
	twice   int64 // kernels that are written more than once
	meta    Meta
	cut     string // how the file ends early, "" when it does not
	behind  string // what follows the trace, "" when nothing does
	summary bool   // sums of kernels, without the times of each
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

// Times beyond these are no times: 73 years around the epoch, and three days for
// one kernel.
const (
	farthest = 1 << 61
	longest  = 1 << 48
)

// usable says whether a kernel may have run then and for so long, in nanoseconds.
func usable(start, dur int64) bool {
	return dur >= 0 && dur <= longest && start > -farthest && start < farthest
}

// plus adds times; a sum that does not fit stays at the largest number.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// nameOf is the index of a kernel's name, which is copied when it is new.
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

// add notes an execution of a kernel; mark is that of its launch, group names the
// process group of a collective.
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

// drop takes back what add has counted of a kernel that is written a second time.
func (r *recording) drop(d *device, k kernel) {
	n := &d.names[k.name]
	n.count--
	n.sum -= k.end - k.start
	d.kernels--
	r.twice++
}

// markOf is the mark of a launch on a stream. A stream runs one kernel at a time,
// so two kernels of a launch with the same times are one. Launches that the file
// does not number have none.
func markOf(stream, launch []byte) uint16 {
	if len(launch) == 0 || string(launch) == "0" {
		return 0
	}
	const values = 1<<14 - 1 // they pack into two bytes
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

// addMany notes n executions of a kernel of which only the sum is known.
func (r *recording) addMany(d *device, name []byte, n, sum int64) {
	of := &d.names[r.nameOf(d, name)]
	of.count, of.sum, d.kernels = plus(of.count, n), plus(of.sum, sum), plus(d.kernels, n)
}
