package host

import (
	"context"
	"fmt"
	"net"
	"time"

	"aicplan/cudaops/load"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/textutil"
)

// measured runs the load of a case on the server. It cancels the load and stops the server if the server
// stops responding. Errors have a failure class.
func (h *Host) measured(ctx context.Context, a *ask, streaming bool) (worker.Row, *load.Traffic, error) {
	inner := h.load(h.current)
	loading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := h.options.AnswersWithin
	if patience == nil && streaming { // a response without streaming may take long
		patience = new(defaultAnswers)
	}
	if patience != nil {
		w := silence{patience: time.Duration(*patience), began: time.Now()}
		inner.Watch = func(p load.Progress) {
			if err := w.see(p, time.Now()); err != nil {
				cancel(err)
			}
		}
	}

	row, res, err := inner.Load(loading, a.Case, h.out)
	if err == nil {
		h.current.doubted = len(res.Profiling.Summary.Errors) > 0
		return row, res, nil
	}

	h.current.doubted = true
	if why := context.Cause(loading); why != nil && ctx.Err() == nil {
		err := failure(worker.ClassTimeout, why, h.log.Last())
		h.end() // it would hang the next case as well
		return nil, nil, err
	}

	return nil, nil, h.duringLoad(ctx, err)
}

// silence detects a server that has open requests but sends nothing.
type silence struct {
	patience time.Duration
	began    time.Time // start of the silence
	last     int64
}

// see returns an error if the server has been silent for too long.
func (s *silence) see(p load.Progress, now time.Time) error {
	if heard := p.Tokens + p.Succeeded + p.Failed; heard != s.last || p.InFlight == 0 {
		s.last, s.began = heard, now
		return nil
	}

	if now.Sub(s.began) < s.patience {
		return nil
	}
	return fmt.Errorf("the server hangs: it has %s and sent nothing for %v (answers_within of the runtime)",
		textutil.Some(int(p.InFlight), "request"), s.patience)
}

// How long a server with failed requests is observed. A dying server closes its connections before it
// exits, and releasing GPUs takes a while.
const (
	endLook     = 200 * time.Millisecond
	endPatience = 5 * time.Second
)

// endOf returns how a server with failed requests ended, or "" if it accepts connections. It waits for a
// server that does not listen anymore.
func (h *Host) endOf(ctx context.Context, s *running) string {
	for began := time.Now(); ; {
		select {
		case <-s.Done():
		case <-ctx.Done():
		case <-time.After(endLook):
		}
		if how := s.Exit(); how != "" || ctx.Err() != nil || time.Since(began) > min(h.again, endPatience) {
			return how
		}
		if c, err := net.DialTimeout("tcp", s.address, endPatience); err == nil {
			_ = c.Close() // only checks whether the server listens
			return ""
		}
	}
}

// duringLoad returns the error of a failed load. If the server has ended, the error reports that instead.
func (h *Host) duringLoad(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}

	how := h.endOf(ctx, h.current)
	if how == "" {
		return err
	}

	first := worker.FailureOf(err).Message
	return failure(worker.ClassFrameworkBug, fmt.Errorf("the server ended with %s in the middle of the load (%s)",
		how, firstLine(first)), h.log.Last())
}
