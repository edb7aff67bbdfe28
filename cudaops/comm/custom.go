package comm

import (
	"context"
	"maps"

	"aicplan/cudaops/nccl"
	"aicplan/cudaops/worker"
)

// The algorithms of custom_allreduce.
const (
	AlgorithmOneShot = viaOneShot
	AlgorithmTwoShot = viaTwoShot
	// AlgorithmAuto is one-shot up to a size that depends on the number of GPUs:
	// what a framework would run.
	AlgorithmAuto = "auto"
)

// autoMost is the largest message, in bytes, that auto reduces in one shot.
func autoMost(ranks int) int64 {
	switch {
	case ranks <= 2:
		return 2 << 20
	case ranks <= 4:
		return 256 << 10
	}
	return 128 << 10
}

func autoVia(t nccl.DataType, ranks int, elements int64) string {
	if elements*t.Size() <= autoMost(ranks) || peerSupported(viaTwoShot, t, ranks, elements) != nil {
		return viaOneShot
	}
	return viaTwoShot
}

// peerGrid is the number of blocks for a message: a word of 16 bytes for every
// thread, as far as that goes. Every block must be on the device at the same
// time as its peers' blocks for the exchange to overlap, so there are no more
// than a chip has multiprocessors.
func peerGrid(via string, ranks int, bytes int64) int {
	words, most := bytes/16, int64(64)
	if via == viaTwoShot {
		words, most = words/int64(ranks), 128
	}
	return int(min(max(1, (words+peerThreads-1)/peerThreads), most))
}

// customAllReduce measures an all-reduce kernel over peer memory. Parameters:
// allreduce_dtype, num_gpus, message_size (elements) and optionally algorithm
// (auto) and method (graph). The ranks are threads of this process either way:
// each kernel belongs to one device, and nothing of NCCL is involved.
func (h *host) customAllReduce(p *params) (visitor, error) {
	dt := p.dataType("allreduce_dtype", reduceWords...)
	gpus := int(p.whole("num_gpus", 1))
	elements := p.whole("message_size", 1)
	via := p.wordOr("algorithm", AlgorithmAuto, AlgorithmAuto, AlgorithmOneShot, AlgorithmTwoShot)
	method, err := methodOf(p.text("method"), h.options, h.settings, MethodGraph)
	if err != nil {
		p.fail(worker.ClassCollectorBug, "%v", err)
	}
	if p.err != nil {
		return nil, p.err
	}
	l, err := newLayout(AllReduce, dt, gpus, elements)
	if err != nil {
		return nil, failure(worker.ClassUnsupportedConfig, "%v", err)
	}
	if via == AlgorithmAuto {
		via = autoVia(dt, gpus, elements)
	}
	if err := peerSupported(via, dt, gpus, elements); err != nil {
		return nil, failure(worker.ClassUnsupportedConfig, "%v", err)
	}
	if err := h.enough(gpus); err != nil {
		return nil, err
	}
	c := h.threads
	t := task{
		Via: via, Op: AllReduce, Type: dt, Ranks: gpus, Elements: elements, Fault: h.options.faultFor(p),
		Grid: peerGrid(via, gpus, l.bytes),
	}
	m := h.measurement(c, t, l, method)
	m.own = true
	m.prepare = func(ctx context.Context) error {
		c.limit = max(h.options.limit, 2*kernelLimit.Seconds())
		room := task{Ranks: gpus, Send: l.bytes, Recv: l.bytes, Staging: peerStaging(via, gpus, l.bytes)}
		if err := c.reserve(ctx, room); err != nil {
			return err
		}
		return c.meetPeers(ctx, task{Via: via, Ranks: gpus})
	}
	m.columns = worker.Row{
		"op_name": AllReduce, "algorithm": via, "kernel_source": "aicplan_" + via + "_" + method,
		"implementation": "aicplan_" + via, "grid_blocks": t.Grid,
	}
	return m, nil
}

// p2p measures copies from one GPU's memory to another's. Parameters: src, dst
// (device indices), bytes, and optionally direction: one_way, or both_ways with
// a copy in the other direction at the same time. Latency is the time of one of
// several copies queued back to back, by events of the device; gb_per_s counts
// the bytes that move one way.
func (h *host) p2p(ctx context.Context, p *params) (worker.Row, error) {
	src, dst := int(p.whole("src", 0)), int(p.whole("dst", 0))
	bytes := p.whole("bytes", 1)
	direction := p.wordOr("direction", "one_way", "one_way", "both_ways")
	if p.err == nil && src == dst {
		p.fail(worker.ClassUnsupportedConfig, "src and dst are both %d; a copy goes from one GPU to another", src)
	}
	if p.err != nil {
		return nil, p.err
	}
	ranks := max(src, dst) + 1
	if err := h.enough(ranks); err != nil {
		return nil, err
	}
	path, err := h.path(src, dst)
	if err != nil {
		return nil, failureOf(err, true)
	}
	c := h.threads
	c.limit = h.options.limit
	if err := c.reserve(ctx, task{Ranks: ranks, Send: bytes, Recv: bytes}); err != nil {
		return nil, failureOf(err, true)
	}
	if err := c.meetPeers(ctx, task{Via: viaCopy, Ranks: ranks}); err != nil {
		return nil, failureOf(err, true)
	}
	f := &copyForm{form: form{crew: c, clock: h.node.Clock, settings: h.settings}}
	f.task = task{
		Via: viaCopy, Type: nccl.Int8, Ranks: ranks, Bytes: bytes, Peers: c.places, Target: dst, Only: []int{src},
	}
	if direction == "both_ways" {
		f.task.Only = []int{src, dst}
		f.back = src
	}
	if err := f.measure(ctx, src, dst); err != nil {
		return nil, failureOf(err, true)
	}
	res := f.series.result(false, h.settings.Protocol)
	row := worker.Row(res.Columns())
	maps.Copy(row, worker.Row{
		"gb_per_s": float64(bytes) / res.Latency / 1e6, "kernel_source": "cuMemcpyPeerAsync",
		"access": path.Access, "native_atomics": path.Atomics, "performance_rank": path.PerformanceRank,
	})
	if path.LinksKnown {
		row["nvlinks"] = path.Links
	}
	return row, nil
}
