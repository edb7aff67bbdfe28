package load

import (
	"sync"
	"time"

	"aicplan/cudaops/load/aiperf"
)

// Progress is the state of a running phase. Elapsed is the time since the phase began.
type Progress struct {
	Warmup                  bool
	Elapsed                 time.Duration
	Sent, Succeeded, Failed int64
	InFlight                int64

	// Total is the number of requests of the phase, or 0 if unknown.
	Total int

	// Tokens counts messages with output.
	Tokens int64

	// TTFT is the mean time to the first token in ms of the responses since the last call, or 0 if there were none.
	TTFT float64
}

// recent adds up the times to the first token of recent responses. It is safe for concurrent use.
type recent struct {
	mu  sync.Mutex
	sum int64 // ns
	n   int
}

// add adds a successful response.
func (r *recent) add(rec *aiperf.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(rec.Times) > 1 {
		r.sum += rec.Times[0] - rec.Start
		r.n++
	}
}

// take returns the mean since the last call in ms.
func (r *recent) take() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	mean := float64(r.sum) / float64(max(r.n, 1)) / 1e6
	r.sum, r.n = 0, 0
	return mean
}

// progress starts to report the phase's progress once a second. The caller must call stop, which waits
// until reporting has ended.
func (p *phase) progress(from int64) (stop func()) {
	f := p.r.options.Progress
	if f == nil {
		return func() {}
	}

	p.r.recent.take() // discard responses of an earlier phase
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer p.r.caught()
		t := time.NewTicker(time.Second)
		defer t.Stop()

		for {
			select {
			case <-quit:
				return
			case <-t.C:
				r := p.r
				f(Progress{
					Warmup: p.warmup, Elapsed: time.Duration(r.now() - from), Total: int(p.requests),
					Tokens: r.tokens.Load(),
					Sent:   r.sent.Load(), Succeeded: r.succeeded.Load(), Failed: r.failed.Load(),
					InFlight: r.inFlight.Load(), TTFT: r.recent.take(),
				})
			}
		}
	}()

	return func() {
		close(quit)
		<-done
	}
}
