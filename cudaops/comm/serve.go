package comm

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"aicplan/cudaops/worker"
)

// window is how many cases are held and visited in turn. A disturbance of the
// host that hits one visit of a case is over at the next.
const window = 24

type held struct {
	seq     int64
	visitor visitor
}

// gathering is how long the host waits for further cases before it begins with
// the first ones: an engine sends several at once.
const gathering = 5 * time.Millisecond

// Serve implements worker.Host: it visits the cases that it holds in turn until
// each is measured.
func (h *host) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	stop := make(chan struct{})
	defer close(stop)
	arrived := make(chan worker.Case, window)
	go pump(in, arrived, stop)
	if h.gang != nil {
		defer h.disband(ctx)
	}
	var cases []held
	for open := true; open || len(cases) > 0; {
		if open {
			var err error
			if cases, open, err = h.take(ctx, cases, arrived, out); err != nil {
				return err
			}
		}
		var left []held
		for i, c := range cases {
			out.Start(c.seq)
			row, done, err := guarded(ctx, c.visitor)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			switch {
			case err != nil:
				f := worker.FailureOf(err)
				out.Error(c.seq, f)
				if f.Fatal {
					return h.giveUp(append(left, cases[i+1:]...), f, out)
				}
			case done:
				out.Result(c.seq, []worker.Row{row}, 0)
				if m, ok := c.visitor.(*measurement); ok {
					out.Log("debug", "%s", m.visits())
				}
			default:
				left = append(left, c)
			}
		}
		cases = left
	}
	return nil
}

// disband ends the ranks on other nodes in order, so that the command that started
// them does not complain.
func (h *host) disband(ctx context.Context) {
	h.procs.close(context.WithoutCancel(ctx))
	h.gang.retire()
}

// pump passes cases on as they come, so that they are there when looked for.
func pump(in <-chan worker.Case, to chan<- worker.Case, stop <-chan struct{}) {
	defer close(to)
	for {
		select {
		case c, ok := <-in:
			if !ok {
				return
			}
			select {
			case to <- c:
			case <-stop:
				return
			}
		case <-stop:
			return
		}
	}
}

// take receives cases: what is there, and when none is held what comes within a
// moment of the first. It reports false when no more will come.
func (h *host) take(ctx context.Context, cases []held, in <-chan worker.Case, out worker.Emitter) ([]held, bool, error) {
	add := func(c worker.Case) {
		v, err := h.visitor(c)
		if err != nil {
			out.Start(c.Seq)
			out.Error(c.Seq, worker.FailureOf(err))
			return
		}
		cases = append(cases, held{c.Seq, v})
	}
	var over <-chan time.Time // ends the gathering
	if len(cases) > 0 {
		now := make(chan time.Time)
		close(now)
		over = now
	}
	for len(cases) < window {
		if over == nil && len(cases) > 0 {
			// The engine may have no other case.
			timer := time.NewTimer(gathering)
			defer timer.Stop()
			over = timer.C
		}
		// What has arrived comes before the end of the wait.
		select {
		case c, ok := <-in:
			if !ok {
				return cases, false, nil
			}
			add(c)
			continue
		default:
		}
		select {
		case c, ok := <-in:
			if !ok {
				return cases, false, nil
			}
			add(c)
		case <-over:
			return cases, true, nil
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
	return cases, true, nil
}

// giveUp ends the cases that were begun in a process that cannot go on. Another
// one can measure them.
func (h *host) giveUp(cases []held, f worker.Failure, out worker.Emitter) error {
	for _, c := range cases {
		if m, ok := c.visitor.(*measurement); ok && m.begun {
			out.Error(c.seq, worker.Failure{
				Class: worker.ClassTransient, Exception: "WorkerLost",
				Message: "the worker had to be replaced while it measured this case: " + f.Message,
			})
		}
	}
	return &worker.RestartError{Reason: f.Message}
}

// guarded turns a panic into the failure of one case.
func guarded(ctx context.Context, v visitor) (row worker.Row, done bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &worker.FailureError{Failure: worker.Failure{
				Class: worker.ClassCollectorBug, Exception: "panic", Message: fmt.Sprint("panic: ", p), Traceback: string(debug.Stack()),
			}}
		}
	}()
	return v.visit(ctx)
}
