package comm

import (
	"context"

	"aicplan/cudaops/worker"
)

// window is the number of cases that are visited in turn. A disturbance of the host during one visit of a
// case is usually over at its next visit.
const window = 24

// Serve implements worker.Host.
func (h *host) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	if h.group.nodes > 1 {
		defer h.group.stop() // before the process ends, so that the launcher reports no errors
	}

	return (&worker.InTurn{Window: window, Open: h.visitor}).Serve(ctx, in, out)
}
