package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"aicplan/cudaops/load/arrivals"
	"aicplan/cudaops/load/metrics"
	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/prompts"
)

// A session is a conversation in progress.
type session struct {
	number  int
	conv    *prompts.Conversation
	turn    int
	history []openai.Message
	id      string // X-Correlation-ID of all its turns
	turns   int    // how many of its turns are sent
}

// phase is the state of one phase.
type phase struct {
	r         *runner
	warmup    bool
	requests  int64 // limit, 0 for none
	sessions  int64
	issued    atomic.Int64
	begun     atomic.Int64
	ending    chan struct{} // closed when no further request may begin
	end       sync.Once
	mu        sync.Mutex // of next and cancel
	cancel    *rand.Rand
	collector metrics.Collector
	batches   []Batch
}

// phase runs warm-up or profiling. client is filled in where it is not nil.
func (r *runner) phase(ctx context.Context, slots *[]*slot, warmup bool, client *Client) (*Phase, error) {
	s := &r.settings
	p := &phase{r: r, warmup: warmup, ending: make(chan struct{}), requests: int64(s.Requests), sessions: int64(s.Sessions)}
	p.cancel = rand.New(rand.NewPCG(s.Seed^r.options.Salt, 0x63616e63656c))
	p.collector = metrics.Collector{Streaming: s.Streaming, SLO: r.slo}
	duration := seconds(s.Duration)
	if warmup {
		p.requests, p.sessions, duration = int64(s.WarmupRequests), 0, 0
	}
	for _, a := range []*atomic.Int64{&r.sent, &r.succeeded, &r.failed, &r.tokens} {
		a.Store(0)
	}
	recorder := p.record()
	meter := startMeter()
	from := r.now()
	outer := ctx
	ctx, abort := context.WithCancel(outer)
	defer abort()
	if duration > 0 {
		stop := time.AfterFunc(duration, p.stop)
		defer stop.Stop()
		late := time.AfterFunc(duration+seconds(s.Grace), abort)
		defer late.Stop()
	}
	unhook := context.AfterFunc(ctx, p.stop)
	defer unhook()
	progress := p.progress(from)
	switch {
	case !warmup && s.Users > 0:
		p.users(ctx, slots)
	case !warmup && s.RequestRate > 0:
		c := arrivals.Config{Pattern: s.Arrival, Rate: s.RequestRate, Smoothness: s.Smoothness, Ramp: seconds(s.RateRamp), Seed: s.Seed ^ r.options.Salt}
		p.paced(ctx, slots, arrivals.New(c).Next)
	case !warmup && s.Trace != "" && r.conversations.At(0).At >= 0:
		p.replay(ctx, slots)
	case s.Batch > 0:
		p.batched(ctx, *slots)
	default:
		p.closed(ctx, *slots)
	}
	progress()
	to := r.now()
	if client != nil {
		meter.stop(client)
	}
	recorder()
	if v := r.panicked.Load(); v != nil {
		panic(*v)
	}
	out := &Phase{Summary: p.collector.Summary(), From: from, To: to, Batches: p.batches}
	if out.Summary.Requests == 0 {
		if outer.Err() != nil {
			return nil, outer.Err()
		}
		return nil, errStopped
	}
	return out, nil
}

func (p *phase) stop() { p.end.Do(func() { close(p.ending) }) }

func (p *phase) over() bool {
	select {
	case <-p.ending:
		return true
	default:
		return false
	}
}

// take reserves one request; false when there are none left.
func (p *phase) take() bool {
	if p.over() {
		return false
	}
	if p.requests > 0 && p.issued.Add(1) > p.requests {
		p.stop()
		return false
	}
	return true
}

// begin starts the next conversation; nil when there is none left.
func (p *phase) begin() *session {
	n := p.begun.Add(1)
	if p.sessions > 0 && n > p.sessions {
		return nil // those that began go on
	}
	p.mu.Lock()
	i := p.r.next
	p.r.next++
	p.mu.Unlock()
	return p.session(int(n-1), p.r.conversations.At(int(p.r.order[i%len(p.r.order)])))
}

func (p *phase) session(number int, c *prompts.Conversation) *session {
	return &session{number: number, conv: c, turns: len(c.Turns)}
}

// giveUp draws when the next request is cancelled, in time from its start;
// negative for never.
func (p *phase) giveUp() time.Duration {
	s := &p.r.settings
	if p.warmup || s.CancelShare <= 0 {
		return -1
	}
	p.mu.Lock()
	hit := p.cancel.Float64() < s.CancelShare
	p.mu.Unlock()
	if !hit {
		return -1
	}
	return seconds(s.CancelDelay)
}

// turn does the next turn of a session on a slot. It returns false where the
// session cannot go on.
func (p *phase) turn(ctx context.Context, s *slot, ses *session, credit, free int64) bool {
	r := p.r
	if r.prefill != nil {
		select {
		case r.prefill <- struct{}{}:
			s.prefilling = true
		case <-p.ending:
			return false
		}
		free = max(free, r.now()) // waiting for the cap is not the client's fault
	}
	t := &ses.conv.Turns[ses.turn]
	rec := r.record()
	rec.Reset()
	rec.Number, rec.Conversation, rec.Turn, rec.Warmup = ses.number, ses.conv.ID, ses.turn, p.warmup
	rec.Correlation = ses.id
	rec.Credit, rec.Free = credit, free
	rec.Asked = t.Output
	body, err := r.body(ses.history, t)
	if err != nil {
		// The extra inputs were checked before the run; text is always JSON.
		panic("load: a request's body: " + err.Error())
	}
	if r.counter != nil && t.Tokens < 0 {
		for _, m := range ses.history {
			rec.Prompt = append(rec.Prompt, m.Content)
		}
		rec.Prompt = append(rec.Prompt, t.Text)
	}
	if len(ses.history) == 0 {
		rec.Input = t.Tokens
	} else if r.tokenizer != nil {
		rec.Input = t.Tokens
		for _, m := range ses.history {
			rec.Input += len(r.tokenizer.Encode(m.Content))
		}
	}
	r.sent.Add(1)
	r.inFlight.Add(1)
	s.send(ctx, rec, body, p.giveUp())
	s.filled()
	r.inFlight.Add(-1)
	ses.id = rec.Correlation
	ok := rec.Err == nil
	if ok {
		r.succeeded.Add(1)
		r.tokens.Add(int64(len(rec.Times)))
		if r.options.Progress != nil {
			r.recent.add(rec)
		}
	} else {
		r.failed.Add(1)
	}
	ses.turn++
	more := ok && ses.turn < ses.turns
	if more {
		ses.history = append(ses.history, openai.Message{Role: "user", Content: t.Text}, openai.Message{Role: "assistant", Content: s.text.String()})
	}
	r.records <- rec
	return more
}

// closed keeps every slot busy: the next request follows when one ended.
func (p *phase) closed(ctx context.Context, slots []*slot) {
	ramp := seconds(p.r.settings.ConcurrencyRamp)
	if p.warmup {
		ramp = 0
	}
	var wg sync.WaitGroup
	for i, s := range slots {
		p.r.spawn(&wg, func() {
			if i > 0 && ramp > 0 && !p.sleep(ramp*time.Duration(i)/time.Duration(len(slots))) {
				return
			}
			for {
				if !p.take() {
					return
				}
				ses := p.begin()
				if ses == nil {
					return
				}
				for {
					now := p.r.now()
					if !p.turn(ctx, s, ses, now, now) || !p.think(ses) || !p.take() {
						break
					}
				}
			}
		})
	}
	wg.Wait()
}

// batched sends closed batches: every slot one request, and the next batch when
// all have ended.
func (p *phase) batched(ctx context.Context, slots []*slot) {
	for !p.over() {
		var wg sync.WaitGroup
		b := Batch{From: p.r.now()}
		for _, s := range slots {
			if !p.take() {
				break
			}
			ses := p.begin()
			if ses == nil {
				p.stop()
				break
			}
			now := b.From
			wg.Go(func() { p.turn(ctx, s, ses, now, now) })
			b.To = now
		}
		wg.Wait()
		if b.To > 0 {
			b.To = p.r.now()
			p.batches = append(p.batches, b)
		}
	}
}

// think waits the delay of a session's next turn.
func (p *phase) think(ses *session) bool {
	return p.sleep(ses.conv.Turns[ses.turn].Delay)
}

// sleep waits; false when the phase ended first.
func (p *phase) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ending:
		return false
	}
}

// waiting is how many records may wait: a burst of answers is not held up by
// their log.
const waiting = 2048

// record is an empty record.
func (r *runner) record() *metrics.Record {
	select {
	case rec := <-r.free:
		return rec
	default:
		return &metrics.Record{}
	}
}

// record starts the goroutine that takes records; the function that it returns
// waits until all are taken.
func (p *phase) record() (wait func()) {
	r := p.r
	r.free, r.records = make(chan *metrics.Record, waiting), make(chan *metrics.Record, waiting)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for range r.records { // after a panic nobody must wait for room
			}
		}()
		defer r.caught()
		take := func(rec *metrics.Record) {
			v := p.collector.Add(rec)
			if r.options.Record != nil {
				if p.warmup {
					v = nil
				}
				r.options.Record(rec, v)
			}
			select {
			case r.free <- rec:
			default: // there are enough
			}
		}
		var kept []*metrics.Record
		for rec := range r.records {
			if r.counter != nil {
				kept = append(kept, rec) // counting now would be load on the server
				continue
			}
			r.count(rec)
			take(rec)
		}
		if r.counter != nil {
			r.counter.count(r, kept)
		}
		for _, rec := range kept {
			take(rec)
		}
	}()
	return func() {
		close(r.records)
		<-done
	}
}
