package comm

import (
	"context"

	"aicplan/cudaops/worker"
)

// message has the parameters of a case of a collective.
type message struct {
	Type     string `param:"nccl_dtype" words:"bfloat16 float16 half int8"`
	GPUs     int64  `param:"num_gpus"`
	Elements int64  `param:"message_size"`
	Method   string `param:"method" words:"eager graph" optional:"true"`
}

// selected is a message of the collective that the case selects.
type selected struct {
	Collective string `param:"op_name" words:"all_reduce all_gather reduce_scatter alltoall broadcast send_recv"`
	message
}

// collective returns the measurement of an NCCL collective. Errors have a failure class.
func (h *host) collective(op string, c message) (worker.Visitor, error) {
	dt, gpus := dataTypes[c.Type], int(c.GPUs)
	l, err := newLayout(op, dt, gpus, c.Elements)
	if err != nil {
		return nil, worker.Failed(worker.ClassUnsupportedConfig, "%v", err)
	}

	if err := h.enough(gpus); err != nil {
		return nil, err
	}

	g := h.group
	m := &measurement{layout: l, method: c.Method, columns: worker.Row{
		"op_name": op, "kernel_source": "NCCL", "nccl_version": h.version, "nccl_env": h.env,
	}, series: series{
		group: g, clock: h.node.Clock, settings: h.settings, bytes: l.bytes, graph: c.Method == MethodGraph,
		task: task{Op: op, Type: dt, Ranks: gpus, Elements: c.Elements},
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
