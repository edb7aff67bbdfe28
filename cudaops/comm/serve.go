package comm

import (
	"context"

	"aicplan/cudaops/worker"
)

// window is how many cases are held and visited in turn. A disturbance of the
// host that hits one visit of a case is over at the next.
const window = 24

// Serve implements worker.Host.
func (h *host) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	if h.gang != nil {
		defer h.disband(ctx)
	}
	return (&worker.InTurn{Window: window, Open: func(c worker.Case) (worker.Visitor, error) {
		v, err := h.visitor(c)
		if err != nil {
			return nil, err
		}
		return visits{v}, nil
	}}).Serve(ctx, in, out)
}

// visits is a visitor to the worker.
type visits struct{ visitor }

func (v visits) Visit(ctx context.Context) ([]worker.Row, float64, bool, error) {
	row, done, err := v.visit(ctx)
	return []worker.Row{row}, 0, done, err
}

// Tell says what the visits of a measurement found.
func (v visits) Tell() string {
	if m, ok := v.visitor.(*measurement); ok {
		return m.visits()
	}
	return "measured in one visit"
}

// disband ends the ranks on other nodes in order, so that the command that started
// them does not complain.
func (h *host) disband(ctx context.Context) {
	h.procs.close(context.WithoutCancel(ctx))
	h.gang.retire()
}
