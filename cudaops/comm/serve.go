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

	return (&worker.InTurn{Window: window, Open: func(c worker.Case) (worker.Visitor, error) {
		v, err := h.visitor(c)
		if err != nil {
			return nil, err
		}
		return visits{v}, nil
	}}).Serve(ctx, in, out)
}

// visits adapts a visitor to worker.Visitor.
type visits struct{ visitor }

func (v visits) Visit(ctx context.Context) ([]worker.Row, float64, bool, error) {
	row, done, err := v.visit(ctx)
	return []worker.Row{row}, 0, done, err
}
