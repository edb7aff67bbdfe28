package trace

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// interval is the time interval [start, end) in nanoseconds.
type interval struct{ start, end int64 }

// kernel is one execution of a kernel.
type kernel struct {
	interval
	name int32 // index into recording.names
	launch
}

// launch has hashes of the stream of a kernel and of the number of its launch, 0 if the file does not have them.
type launch struct{ stream, number uint16 }

func inOrder(a, b kernel) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name),
		cmp.Compare(a.number, b.number), cmp.Compare(a.stream, b.stream))
}

// span is a named range: a step of the profiler or of a serving engine.
type span struct {
	interval
	name  string
	onGPU bool // projected onto the device by the profiler
	origin
	process string // of a range of the host, "" if unknown
}

// origin identifies a device of a process. Processes with one visible GPU each use the same device id.
type origin struct{ device, pid string }

// device collects the kernels and copies of one device of one process.
type device struct {
	origin
	rank    *int // as written in its events
	kernels []kernel
	// processes run its kernels, if the file numbers the processes of ranges and kernels alike.
	processes []string
	copies    []interval

	// coverage is the sum of duration and share of SMs with a block, covered the sum of these durations.
	coverage, covered float64
}

// kernelName is a distinct kernel name with its kind. Names with different details of a collective are distinct.
type kernelName struct {
	name string
	rule int // index of the matching rule, or -1 if there is none or the trace names the kind
	// The kind is "" for compute, and there are no details then.
	collective
}

// nameKey identifies a kernelName by what the trace states.
type nameKey struct {
	name string
	of   collective
}

// callKey identifies collectives that correspond to each other on different ranks.
type callKey struct{ kind, group string }

// recording is the data collected from one file.
type recording struct {
	rules     Rules
	names     []kernelName
	nameIndex map[nameKey]int32
	devices   []*device                  // in order of their first event
	processes map[string]map[string]bool // names by process id
	hosts     map[string]bool            // ids of processes that run operators and launch kernels
	ranges    []span
	events    int64
	skipped   int64 // kernels without usable times
	unsteps   int64 // steps without usable times
	broken    int64 // events that cannot be parsed
	wrong     error // error of the first broken event
	twice     int64 // duplicate kernels
	graphs    int64 // executions of CUDA graphs without their kernels
	meta      Meta
	calls     calls

	cut    string // why the file is truncated, or ""
	behind string // what follows after the trace, or ""
}

func newRecording(rules Rules) *recording {
	return &recording{
		rules: rules, nameIndex: map[nameKey]int32{}, processes: map[string]map[string]bool{}, hosts: map[string]bool{},
	}
}

// device returns the device of an origin.
func (r *recording) device(o origin) *device {
	for _, d := range r.devices { // a file has few devices
		if d.origin == o {
			return d
		}
	}

	d := &device{origin: o}
	r.devices = append(r.devices, d)
	return d
}

// Limits of valid times: 73 years from the epoch, and three days for one kernel.
const (
	farthest = 1 << 61
	longest  = 1 << 48
)

// usable reports whether start and duration in nanoseconds are plausible. CUPTI writes 0 for both if it has no time.
func usable(start, dur int64) bool {
	return (start != 0 || dur != 0) && dur >= 0 && dur <= longest && start > -farthest && start < farthest
}

// plus adds two times and saturates at the largest int64.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// nameOf returns the index of a kernel's name and adds the name if it is new. of is what the trace itself states
// about a collective. Its kind overrides that of the rules, except of those that exclude a kernel.
func (r *recording) nameOf(name []byte, of collective) int32 {
	if i, ok := r.nameIndex[nameKey{string(name), of}]; ok {
		return i
	}

	var n kernelName
	if of == (collective{}) {
		n.name = strings.ToValidUTF8(string(name), "\uFFFD")
		n.rule = r.rules.match(n.name)
		if n.rule >= 0 && r.rules[n.rule].Kind != Compute {
			n.kind = r.rules[n.rule].Kind
		}
	} else {
		n = r.names[r.nameOf(name, collective{})]
		excluded := n.rule >= 0 && n.kind == ""
		if of.kind != "" && of.kind != n.kind && !excluded {
			n.kind, n.rule = of.kind, -1
		}
		if n.kind != "" {
			n.group, n.size, n.bytes = of.group, of.size, of.bytes
		}
	}

	i := int32(len(r.names))
	r.names, r.nameIndex[nameKey{string(name), of}] = append(r.names, n), i
	return i
}

func (r *recording) isComm(k kernel) bool { return r.names[k.name].kind != "" }

// add records an execution of a kernel. of is what the trace states about a collective.
func (r *recording) add(d *device, name []byte, iv interval, l launch, of collective) {
	if len(d.kernels) == cap(d.kernels) {
		d.kernels = slices.Grow(d.kernels, len(d.kernels)+1) // append grows large slices by a quarter
	}
	d.kernels = append(d.kernels, kernel{interval: iv, name: r.nameOf(name, of), launch: l})
}

// sort sorts the kernels of a device by time and returns the number of duplicates that it removed. A stream
// runs one kernel at a time, so two kernels with the same launch and the same times are duplicates.
func (d *device) sort() int {
	slices.SortStableFunc(d.kernels, inOrder)
	n := len(d.kernels)
	d.kernels = slices.CompactFunc(d.kernels, func(a, b kernel) bool {
		return a.number != 0 && a.launch == b.launch && a.name == b.name && a.interval == b.interval && a.end > a.start
	})
	return n - len(d.kernels)
}

// launchOf returns the launch of a kernel. The number "0" means that the file does not number launches.
func launchOf(stream, number []byte) launch {
	l := launch{stream: hash(stream)}
	if string(number) != "0" {
		l.number = hash(number)
	}
	return l
}

// hash returns a hash of the text that is not 0, or 0 for an empty text.
func hash(text []byte) uint16 {
	if len(text) == 0 {
		return 0
	}
	h := uint32(0)
	for _, b := range text {
		h = h*31 + uint32(b)
	}
	return uint16(h%math.MaxUint16) + 1
}

// cover records that a kernel of the given duration had a block on a share of the SMs.
func (d *device) cover(iv interval, share float64) {
	d.coverage += min(share, 1) * float64(iv.end-iv.start)
	d.covered += float64(iv.end - iv.start)
}
