package trace

import (
	"strconv"
	"strings"
)

// fused returns a warning if processes of a merged trace have the same id, or "".
func (r *recording) fused() string {
	several := len(r.hosts) > len(r.devices)
	for _, d := range r.devices {
		several = several || len(r.processes[d.pid]) > 1
	}

	if !several || len(r.devices) == 0 {
		return ""
	}
	return "it may be a merged trace of processes with the same id: their kernels count as one device; give the " +
		"trace of each process instead"
}

// label returns the device as results show it. If several processes use the same id, it contains the process.
func (r *recording) label(d *device) string {
	for _, other := range r.devices {
		if other != d && other.device == d.device {
			return d.device + " of " + d.pid
		}
	}
	return d.device
}

// processOf returns what the events of the host and of the device of one process have in common in a merged trace: the
// rank, or the label that SGLang puts before the process id, such as [TP00-EP00]. It returns "" if there is neither.
func processOf(pid string, rank *int) string {
	if rank != nil {
		return strconv.Itoa(*rank)
	}
	label, _, merged := strings.Cut(pid, "] ")
	if !merged || !strings.HasPrefix(label, "[") {
		return ""
	}
	return label
}

// rankOf returns the rank of a device, or nil if it is unknown. The file's rank belongs to its only device. A
// merged file has the devices of several ranks: the events or the ids of processes contain the ranks, or the devices
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
