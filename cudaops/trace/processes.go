package trace

import (
	"fmt"
	"slices"
)

// process is a process of a file, identified by its id. A merged trace may contain several processes with the
// same id, one after the other. Profilers write the name of a process before or after all its events.
type process struct {
	names  []string // of the parts, "" if unknown
	marks  int      // metadata events with a name
	active bool     // the last part has activities of a device
	closed bool     // the last part was named after its activities
}

func (r *recording) process(pid string) *process {
	p := r.processes[pid]
	if p == nil {
		p = &process{names: []string{""}}
		r.processes[pid] = p
	}
	return p
}

func (p *process) next() { p.names, p.active, p.closed = append(p.names, ""), false, false }

// mark handles a metadata event with the name of the process.
func (p *process) mark(name string) {
	last := len(p.names) - 1
	if p.active && p.names[last] != "" {
		p.next()
		last++
	}
	p.names[last], p.closed = name, p.active
	p.marks++
}

// part returns the index of the part to which an activity of a device belongs.
func (p *process) part() int {
	if p.closed {
		p.next()
	}
	p.active = true
	return len(p.names) - 1
}

// settle assigns the events of a file to devices. If a process has fewer names than parts, it is one process
// that was named in the middle of its events.
func (r *recording) settle() {
	one := func(o *origin) {
		if p := r.processes[o.pid]; p != nil && p.marks < len(p.names) {
			o.part = 0
		}
	}

	devices := r.devices
	r.devices = nil
	for _, d := range devices {
		one(&d.origin)
		into := r.device(d.origin)
		if len(into.kernels)+len(into.copies) == 0 {
			*into = *d
			continue
		}
		into.kernels, into.copies = append(into.kernels, d.kernels...), append(into.copies, d.copies...)
		into.coverage, into.covered = into.coverage+d.coverage, into.covered+d.covered
		into.rank = d.rank
	}

	for i := range r.ranges {
		one(&r.ranges[i].origin)
	}
	r.devices = slices.DeleteFunc(r.devices, func(d *device) bool { return len(d.kernels) == 0 })
}

// fused returns a warning if processes of a merged trace cannot be kept apart, or "".
func (r *recording) fused() string {
	several := len(r.hosts) > len(r.devices)
	for _, d := range r.devices {
		p := r.processes[d.pid]
		several = several || p != nil && p.marks > 0 && p.marks != len(p.names) || r.collides(d)
	}

	if !several || len(r.devices) == 0 {
		return ""
	}
	return "it may be a merged trace of processes with the same id: their kernels cannot be kept apart and count as one " +
		"device"
}

// collides reports whether collectives of one kind run on one stream at the same time, for more than half of the
// shorter one, at least three times. A stream runs them one after the other; kernels of other kinds may start before
// the last one ends.
func (r *recording) collides(d *device) bool {
	type place struct {
		stream uint16
		kind   string
	}
	last := map[place]interval{}
	times := 0
	for _, k := range d.kernels {
		at := place{k.stream, r.names[k.name].kind}
		if at.kind == "" || k.stream == 0 || k.number == 0 {
			continue
		}

		before, ok := last[at]
		both := min(before.end, k.end) - k.start
		if ok && 2*both > min(before.end-before.start, k.end-k.start) {
			times++
		}
		if !ok || k.end > before.end {
			last[at] = k.interval
		}
	}
	return times >= 3
}

// label returns the device as results show it. If several processes use the same id, it contains the process.
func (r *recording) label(d *device) string {
	text := d.device
	for _, other := range r.devices {
		switch {
		case other == d || other.device != d.device:
		case other.pid == d.pid:
			return fmt.Sprintf("%s of %s, process %d", d.device, d.pid, d.part+1)
		default:
			text = d.device + " of " + d.pid
		}
	}
	return text
}

// rankOf returns the rank of a device, or nil if it is unknown. The file's rank belongs to its only device. A
// merged file has the devices of several ranks: the events or the processes contain the ranks, or the devices
// are those of all ranks in order.
func (r *recording) rankOf(d *device) *int {
	if len(r.devices) == 1 && r.meta.Rank != nil {
		return r.meta.Rank
	}
	if d.rank != nil {
		return d.rank
	}
	if rank := RankOfName(d.pid); rank != nil {
		return rank
	}
	for _, other := range r.devices {
		if other != d && other.pid == d.pid && other.device == d.device {
			return RankOfName(r.processes[d.pid].names[d.part])
		}
	}

	world := r.meta.WorldSize
	if world == nil || len(r.devices) != *world {
		return nil
	}
	for _, other := range r.devices {
		if n := number(other.device); n == nil || *n < 0 || *n >= *world || r.label(other) != other.device {
			return nil
		}
	}
	return number(d.device)
}
