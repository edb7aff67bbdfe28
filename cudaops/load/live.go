package load

import (
	"sync"
	"time"

	"aicplan/cudaops/load/metrics"
)

// Progress is where a run stands.
type Progress struct {
	Warmup                  bool
	Elapsed                 time.Duration
	Sent, Succeeded, Failed int64
	InFlight                int64
	// Total is how many requests there will be, 0 when nobody knows.
	Total int
	// Tokens counts messages with output.
	Tokens int64
	// Recent are figures of the answers since the last call, in ms; there are none
	// where nothing was answered.
	Recent []Live
	// Answers is how many answers they are of.
	Answers int
}

// Live is one figure of answers of late.
type Live struct {
	Name  string
	Stats metrics.Stats
}

// mostRecent bounds what is kept of the answers of an interval.
const mostRecent = 4096

// recent keeps figures of the newest answers.
type recent struct {
	mu                 sync.Mutex
	ttft, gap, latency []float64
	answers            int
}

// add takes an answer that succeeded.
func (r *recent) add(rec *metrics.Record) {
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

// take gives out what was kept, and begins anew.
func (r *recent) take() (out []Live, answers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range []struct {
		name string
		of   *[]float64
	}{{"time to first token", &r.ttft}, {"between messages", &r.gap}, {"latency", &r.latency}} {
		if s, ok := metrics.Describe(*f.of); ok {
			out = append(out, Live{f.name, s})
		}
		*f.of = (*f.of)[:0]
	}
	answers, r.answers = r.answers, 0
	return out, answers
}

// progress starts to tell where the phase stands.
func (p *phase) progress(from int64) (stop func()) {
	f := p.r.options.Progress
	if f == nil {
		return func() {}
	}
	p.r.recent.take() // what the phase before left
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
					Warmup: p.warmup, Elapsed: time.Duration(r.now() - from), Total: int(p.requests), Tokens: r.tokens.Load(),
					Sent: r.sent.Load(), Succeeded: r.succeeded.Load(), Failed: r.failed.Load(), InFlight: r.inFlight.Load(),
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
