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

	// Recent are statistics in ms of the responses since the last call. It is empty if there were none.
	Recent []Live

	// Answers is the number of responses since the last call.
	Answers int
}

// Live is one statistic of recent responses, in ms.
type Live struct {
	Name  string
	Stats aiperf.Stats
}

// mostRecent limits how many responses of an interval are kept for statistics.
const mostRecent = 4096

// recent collects times of recent responses in ms. It is safe for concurrent use.
type recent struct {
	mu                 sync.Mutex
	ttft, gap, latency []float64
	answers            int
}

// add records a successful response.
func (r *recent) add(rec *aiperf.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers++
	if len(r.latency) >= mostRecent {
		return
	}

	first, last, n := rec.Times[0], rec.Times[len(rec.Times)-1], len(rec.Times)
	r.latency = append(r.latency, float64(last-rec.Start)/1e6)
	if n > 1 {
		r.ttft = append(r.ttft, float64(first-rec.Start)/1e6)
		r.gap = append(r.gap, float64(last-first)/float64(n-1)/1e6)
	}
}

// take returns the statistics since the last call and resets them.
func (r *recent) take() (out []Live, answers int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	for _, f := range []struct {
		name string
		of   *[]float64
	}{{"time to first token", &r.ttft}, {"between messages", &r.gap}, {"latency", &r.latency}} {
		if s, ok := aiperf.Describe(*f.of); ok {
			out = append(out, Live{f.name, s})
		}
		*f.of = (*f.of)[:0]
	}

	answers, r.answers = r.answers, 0
	return out, answers
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
				g := Progress{
					Warmup: p.warmup, Elapsed: time.Duration(r.now() - from), Total: int(p.requests),
					Tokens: r.tokens.Load(),
					Sent:   r.sent.Load(), Succeeded: r.succeeded.Load(), Failed: r.failed.Load(),
					InFlight: r.inFlight.Load(),
				}
				g.Recent, g.Answers = r.recent.take()
				f(g)
			}
		}
	}()

	return func() {
		close(quit)
		<-done
	}
}
