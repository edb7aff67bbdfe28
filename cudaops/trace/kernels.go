package trace

import "strings"

// interval is a span of time on a device, [start, end), in nanoseconds.
type interval struct{ start, end int64 }

// kernel is one execution of a kernel.
type kernel struct {
	interval
	name   int32 // index into device.names
	detail int32 // index into device.details, -1 for none
}

// detail is what PyTorch adds to a collective of its own process groups.
type detail struct {
	collective string // as PyTorch calls it
	group      string
	size       int64 // ranks of the group, 0 unknown
	bytes      int64 // the larger side of the message, 0 unknown
}

// span is a named range: a step of the profiler or of a serving engine.
type span struct {
	interval
	name  string
	onGPU bool // projected to the device by the profiler
}

// device collects what one file says of one device.
type device struct {
	id      string
	index   map[string]int32 // kernel name -> names
	names   []kernelName
	kernels []kernel
	details []detail
}

// kernelName is a distinct kernel with its rule.
type kernelName struct {
	name string
	rule int // index of the rule, -1: compute
}

// recording is what a reader collects from one file.
type recording struct {
	rules   Rules
	classes map[string]int // kernel name -> rule, over all devices
	devices map[string]*device
	order   []string
	ranges  []span
	events  int64
	skipped int64 // events of a kernel without times
	meta    Meta
	cut     string // how the file ends early, "" when it does not
}

func newRecording(rules Rules) *recording {
	return &recording{rules: rules, classes: map[string]int{}, devices: map[string]*device{}}
}

func (r *recording) device(id string) *device {
	d := r.devices[id]
	if d == nil {
		d = &device{id: id, index: map[string]int32{}}
		r.devices[id] = d
		r.order = append(r.order, id)
	}
	return d
}

// add notes an execution of a kernel. name is copied when it is new.
func (r *recording) add(d *device, name []byte, iv interval, dt *detail) {
	i, ok := d.index[string(name)]
	if !ok {
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
	}
	k := kernel{interval: iv, name: i, detail: -1}
	if dt != nil {
		k.detail = int32(len(d.details))
		d.details = append(d.details, *dt)
	}
	d.kernels = append(d.kernels, k)
}
