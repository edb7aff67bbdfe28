package comm

import (
	"context"

	"aicplan/cudaops/worker"
)

// collective returns the measurement of an NCCL collective. Parameters: nccl_dtype, num_gpus, message_size
// (elements) and optionally method. Errors have a failure class.
func (h *host) collective(p *worker.Params, op string) (worker.Visitor, error) {
	dt := dataTypes[p.Word("nccl_dtype", typeWords()...)]
	gpus := int(p.Whole("num_gpus", 1))
	elements := p.Whole("message_size", 1)
	method := p.WordOr("method", h.options.method(h.settings), MethodEager, MethodGraph)
	if p.Err != nil {
		return nil, p.Err
	}

	l, err := newLayout(op, dt, gpus, elements)
	if err != nil {
		return nil, worker.Failed(worker.ClassUnsupportedConfig, "%v", err)
	}

	if err := h.enough(gpus); err != nil {
		return nil, err
	}

	g := h.group
	m := &measurement{layout: l, method: method, columns: worker.Row{
		"op_name": op, "kernel_source": "NCCL", "nccl_version": h.version, "nccl_env": h.env,
	}, series: series{
		group: g, clock: h.node.Clock, settings: h.settings, bytes: l.bytes, graph: method == MethodGraph,
		task: task{Op: op, Type: dt, Ranks: gpus, Elements: elements},
	}}

	room := task{Kind: taskReserve, Ranks: gpus, Send: l.send * l.size, Recv: l.recv * l.size}
	m.prepare = func(ctx context.Context) error {
		g.limit = h.options.RankDeadline
		if _, err := g.do(ctx, room); err != nil {
			return err
		}
		if err := g.join(ctx, gpus); err != nil {
			return err
		}
		if g.nodes > 1 { // the node names are only known after the ranks have connected
			m.columns["node_names"], m.columns["device_uuids"] = g.places(gpus)
		}
		return nil
	}

	if g.nodes > 1 {
		m.columns["nodes"], m.columns["gpus_per_node"] = g.nodesOf(gpus), g.perNode
	}

	return m, nil
}
