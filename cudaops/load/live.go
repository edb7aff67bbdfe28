package load

import (
	"context"
	"sync"
	"time"

	"aicplan/cudaops/load/aiperf"
)

// Progress is the state of a running phase. Elapsed is the time since the phase began.
type Progress struct {
	Warmup                      bool
	Elapsed                     time.Duration
	Succeeded, Failed, InFlight int64

	// Total is the number of requests of the phase, or 0 if unknown.
	Total int

	// Tokens counts messages with output, those of open requests too.
	Tokens int64

	// TTFT is the mean time to the first token in ms of the responses since the last call, or 0 if there were none.
	TTFT float64
}

// ended counts the requests of a phase that have ended.
type ended struct {
	succeeded, failed int64

	// Responses since the last report, and the sum of their times to the first token in ns.
	answered, ttft int64
}

// add adds a request.
func (e *ended) add(rec *aiperf.Record) {
	if rec.Err != nil {
		e.failed++
		return
	}

	e.succeeded++
	if len(rec.Times) > 1 {
		e.answered++
		e.ttft += rec.Times[0] - rec.Start
	}
}

// state returns the progress of a phase that began at a time.
func (p *phase) state(from int64) Progress {
	r := p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &r.ended
	out := Progress{Warmup: p.warmup, Elapsed: time.Duration(r.now() - from), Total: int(p.requests),
		Succeeded: e.succeeded, Failed: e.failed, TTFT: float64(e.ttft) / float64(max(e.answered, 1)) / 1e6}
	e.answered, e.ttft = 0, 0
	for _, s := range r.slots {
		out.Tokens += s.messages.Load()
		if s.open.Load() {
			out.InFlight++
		}
	}
	return out
}

// every calls f in an interval, beginning after the first one, until the returned function is called, which waits for a
// running call.
func (r *runner) every(ctx context.Context, interval time.Duration, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	r.spawn(&wg, func() {
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				f(ctx)
			}
		}
	})

	return func() {
		cancel()
		wg.Wait()
	}
}
