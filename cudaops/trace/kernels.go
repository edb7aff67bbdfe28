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
	pid    string // process id of the range as written in the file
}

// device collects the kernels of one device of one process. They are packed, because a trace may have
// millions of them.
type device struct {
	id      string
	pid     string           // process id of its kernels as written in the file
	index   map[string]int32 // kernel name -> names
	names   []kernelName
	groups  []string // process groups; the first has no name
	groupOf map[string]int32

	kernels     int64
	first, last int64
	recent      []kernel // kernels that are not packed yet
	runs        []packed
	calls       map[callKey]int
	copies      []interval // copies and memsets

	// coverage is the sum of duration and share of SMs with a block, covered the sum of these durations.
	coverage, covered float64
}

// kernelName is a distinct kernel name with its kind.
type kernelName struct {
	name  string
	kind  string // of collective, or "" for compute
	rule  int    // index of the rule that gives the kind, or -1
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
	calls   calls

	operators map[string]*Operator // of an execution trace, nil for other files

	copying bool   // the file records copies
	cut     string // why the file is truncated, or ""
	behind  string // what follows after the trace, or ""
	summary bool   // the file contains only sums over kernels
}

func newRecording(rules Rules) *recording {
	return &recording{rules: rules, classes: map[string]int{}, devices: map[string]*device{}}
}

// device returns the device with an id of a process. Processes with one visible GPU each use the same id.
func (r *recording) device(id, pid string) *device {
	key := id + "\x00" + pid
	d := r.devices[key]
	if d == nil {
		d = &device{
			id: id, pid: pid, index: map[string]int32{}, groups: []string{""}, groupOf: map[string]int32{"": 0},
			first: math.MaxInt64, last: math.MinInt64, calls: map[callKey]int{},
		}
		r.devices[key] = d
		r.order = append(r.order, key)
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

// ruleOf returns the index of the first rule that matches a kernel's name, or -1.
func (r *recording) ruleOf(name []byte) int {
	rule, known := r.classes[string(name)]
	if !known {
		rule = r.rules.match(strings.ToValidUTF8(string(name), "\uFFFD"))
		r.classes[string(name)] = rule
	}
	return rule
}

// nameOf returns the index of a kernel's name and adds the name if it is new. named is the kind that the
// trace itself states, or "". It overrides the kind of the rules, except of those that exclude a kernel.
func (r *recording) nameOf(d *device, name []byte, named string) int32 {
	if named != "" {
		if rule := r.ruleOf(name); rule >= 0 && (r.rules[rule].Kind == Compute || r.rules[rule].Kind == named) {
			named = ""
		}
	}

	i, ok := int32(0), false
	if named == "" {
		i, ok = d.index[string(name)]
	} else {
		i, ok = d.index[named+"\x00"+string(name)]
	}
	if ok {
		return i
	}

	n := kernelName{name: strings.ToValidUTF8(string(name), "\uFFFD"), kind: named, rule: r.ruleOf(name)}
	switch {
	case n.rule >= 0 && r.rules[n.rule].Kind == Compute:
		n.kind, n.rule = "", -1
	case named != "":
		n.rule = -1
	case n.rule >= 0:
		n.kind = r.rules[n.rule].Kind
	}

	i = int32(len(d.names))
	d.names = append(d.names, n)
	if named != "" {
		named += "\x00"
	}
	d.index[named+string(name)] = i

	return i
}

// add records an execution of a kernel. mark identifies its launch. of is what the trace states about a
// collective.
func (r *recording) add(d *device, name []byte, iv interval, mark uint16, of collective) {
	i := r.nameOf(d, name, of.kind)
	n := &d.names[i]
	n.count++
	n.sum = plus(n.sum, iv.end-iv.start)

	var dt detail
	if n.kind != "" {
		g, ok := d.groupOf[of.group]
		if !ok {
			g = int32(len(d.groups))
			d.groups, d.groupOf[of.group] = append(d.groups, of.group), g
		}
		dt = detail{group: g, size: of.size, bytes: of.bytes}
		d.calls[callKey{n.kind, of.group}]++
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

// label returns the device as results show it. If several processes use the same id, it contains the process.
func (r *recording) label(d *device) string {
	for _, other := range r.devices {
		if other != d && other.id == d.id && other.kernels > 0 {
			return d.id + " of " + d.pid
		}
	}
	return d.id
}

// rankOf returns the rank of a device, or nil if it is unknown. The file's rank belongs to its only device. A
// merged file has the devices of several ranks: the process ids contain the ranks, or the devices are those
// of all ranks in order.
func (r *recording) rankOf(d *device) *int {
	with := 0
	inOrder := true
	for _, other := range r.devices {
		if other.kernels == 0 {
			continue
		}
		with++
		n := number(other.id)
		inOrder = inOrder && n != nil && r.meta.WorldSize != nil && *n >= 0 && *n < *r.meta.WorldSize
	}

	if with == 1 {
		return r.meta.Rank
	}
	if rank := RankOfName(d.pid); rank != nil {
		return rank
	}
	if inOrder && r.label(d) == d.id && with == *r.meta.WorldSize {
		return number(d.id)
	}
	return nil
}

// cover records that a kernel of the given duration had a block on a share of the SMs.
func (d *device) cover(iv interval, share float64) {
	d.coverage += min(share, 1) * float64(iv.end-iv.start)
	d.covered += float64(iv.end - iv.start)
}

// addMany records n executions of a kernel of which only the total time is known.
func (r *recording) addMany(d *device, name []byte, n, sum int64) {
	of := &d.names[r.nameOf(d, name, "")]
	of.count, of.sum, d.kernels = plus(of.count, n), plus(of.sum, sum), plus(d.kernels, n)
}
