package comm

import (
	"context"
	"maps"

	"aicplan/cudaops/nccl"
	"aicplan/cudaops/worker"
)

// Algorithms of custom_allreduce.
const (
	AlgorithmOneShot = viaOneShot
	AlgorithmTwoShot = viaTwoShot
	// AlgorithmAuto selects one-shot up to a size that depends on the number of GPUs, like serving
	// frameworks.
	AlgorithmAuto = "auto"
)

// autoMost returns the largest message in bytes for which auto selects one-shot.
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

// peerGrid returns the number of thread blocks for a message: enough for one 16-byte word per thread, up to
// a limit. The limit is below the number of multiprocessors, because all blocks must be resident at the
// same time as the blocks of their peers.
func peerGrid(via string, ranks int, bytes int64) int {
	words, most := bytes/16, int64(64)
	if via == viaTwoShot {
		words, most = words/int64(ranks), 128
	}
	return int(min(max(1, (words+peerThreads-1)/peerThreads), most))
}

// customAllReduce returns the measurement of an all-reduce kernel over peer memory. Parameters:
// allreduce_dtype, num_gpus, message_size (elements) and optionally algorithm (default auto) and method
// (default graph). The ranks are always threads of this process, because each kernel runs on one device and
// NCCL is not used. Errors have a failure class.
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

// p2p measures copies from one GPU's memory to another's and returns the row. Parameters: src, dst (device
// indices), bytes, and optionally direction: one_way, or both_ways with simultaneous copies in the other
// direction. Latency is the time per copy of several queued copies, measured with device events. gb_per_s
// counts the bytes in one direction.
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
