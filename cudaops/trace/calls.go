package trace

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// collective is what a trace states about a collective. Zero values mean unknown.
type collective struct {
	kind, group string
	size        int64 // number of ranks in the group
	bytes       int64 // larger side of the message
}

// kinds maps the beginning of PyTorch's names of collectives, in lower case and without underscores, to kinds.
// Longer names come first.
var kinds = []struct{ prefix, kind string }{
	{"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"alltoall", "alltoall"},
	{"reducescatter", "reduce_scatter"}, {"broadcast", "broadcast"}, {"barrier", "barrier"}, {"gather", "gather"},
	{"scatter", "scatter"}, {"reduce", "reduce"}, {"send", sendRecv}, {"recv", sendRecv},
}

// kindOf returns the kind of a collective that PyTorch names, such as _allgather_base or all_to_allv. It
// returns "" for names that are no collective, such as coalesced.
func kindOf(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "")
	for _, k := range kinds {
		if strings.HasPrefix(name, k.prefix) {
			return k.kind
		}
	}
	return ""
}

// Names of CPU events that enclose the launches of a collective.
const paramComms = "record_param_comms"

var ncclRange = []byte("nccl:")

// isCall reports whether a CPU event with this name encloses the launches of a collective.
func isCall(name []byte) bool {
	return string(name) == paramComms || bytes.HasPrefix(name, ncclRange)
}

// calls gives the kind of kernels whose name lacks it, such as those of RCCL and of all-to-all over sends and
// receives. A kernel has the correlation id of its launch, and the launch lies inside the CPU event of a
// collective on the same thread. Profilers write these CPU events before the launches.
type calls struct {
	threads  map[string][]cpuCall // by pid and tid
	unsorted bool
	launches map[string]collective // by correlation id; no kind if processes use the same id
	pending  []launched
}

// cpuCall is a CPU event of a collective.
type cpuCall struct {
	interval
	of collective
}

// launched is a kernel until its launch is known.
type launched struct {
	d           *device
	name        []byte
	iv          interval
	launch      launch
	correlation string
}

// any reports whether the file has CPU events of collectives.
func (c *calls) any() bool { return len(c.threads) > 0 }

func (c *calls) add(thread string, iv interval, of collective) {
	if of.kind == "" {
		return
	}
	if c.threads == nil {
		c.threads, c.launches = map[string][]cpuCall{}, map[string]collective{}
	}
	c.threads[thread] = append(c.threads[thread], cpuCall{iv, of})
	c.unsorted = true
}

// nested is how many calls that started before a launch are checked. Calls nest at most a few levels.
const nested = 8

// launch records a launch if it lies inside a call.
func (c *calls) launch(thread string, at int64, correlation string) {
	if c.unsorted {
		for _, list := range c.threads {
			slices.SortStableFunc(list, func(a, b cpuCall) int { return cmp.Compare(a.start, b.start) })
		}
		c.unsorted = false
	}

	list := c.threads[thread]
	n, _ := slices.BinarySearchFunc(list, at+1, func(c cpuCall, t int64) int { return cmp.Compare(c.start, t) })
	var of collective
	for i := n - 1; i >= max(0, n-nested); i-- {
		if list[i].end >= at && (of.kind == "" || of.size == 0 && list[i].of.size > 0) {
			of = list[i].of
		}
	}

	if of.kind == "" {
		return
	}
	if old, ok := c.launches[correlation]; ok && old != of {
		of = collective{}
	}
	c.launches[correlation] = of
}
