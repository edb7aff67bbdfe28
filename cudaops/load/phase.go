package load

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
)

// A session is a conversation in progress.
type session struct {
	prepared
	number  int
	turn    int
	history []openai.Message
	tokens  int    // of the history, if there is a tokenizer
	id      string // X-Correlation-ID of all its turns
	turns   int    // number of turns to send
}

// phase is the state of one phase.
type phase struct {
	r         *runner
	warmup    bool
	requests  int64 // limit, 0 means unlimited
	sessions  int64
	issued    atomic.Int64
	begun     atomic.Int64
	unused    atomic.Int64 // arrivals without a request, because the next turns were not ready
	feed      *feed
	ending    chan struct{} // closed when no further request may be reserved
	end       sync.Once
	cut       context.Context // done when reserved requests must not start either
	cutoff    context.CancelFunc
	abort     context.CancelFunc     // cancels open requests
	endedBy   atomic.Pointer[string] // the first reason to end early
	endedAt   atomic.Int64
	mu        sync.Mutex    // protects cancel, the end of a batch, and turns that are ready
	failures  failureLimits // protected by the runner
	cancel    *rand.Rand
	collector aiperf.Collector
	groups    groups
	slicer    *aiperf.Slicer // nil without slices
	batches   []Batch
}

// phase runs the warm-up or the profiling phase. If client is not nil, it is filled with the resource
// usage.
func (r *runner) phase(ctx context.Context, warmup bool, client *Client) (*Phase, error) {
	s := &r.settings
	p := &phase{r: r, warmup: warmup, ending: make(chan struct{}), requests: int64(s.Requests),
		sessions: int64(s.Sessions)}
	p.cancel = rand.New(rand.NewPCG(s.Seed^r.options.Salt, 0x63616e63656c))
	p.collector, p.groups = aiperf.Collector{Streaming: s.Streaming, SLO: r.slo}, groups{}
	duration := seconds(s.Duration)
	if r.once {
		p.sessions = int64(r.conversations.Len())
	}
	if warmup {
		p.requests, p.sessions, duration = int64(s.WarmupRequests), 0, 0
	}

	r.ended = ended{}
	for _, s := range r.slots {
		s.messages.Store(0)
	}

	timed := s.Trace != "" && r.conversations.At(0).At >= 0 && s.RequestRate == 0
	replay := timed && !warmup
	if timed && warmup { // from the end, because the replay begins at the first request and a server may have a cache
		r.next = max(0, r.conversations.Len()-s.WarmupRequests)
	}

	p.cut, p.cutoff = context.WithCancel(ctx)
	defer p.cutoff()
	p.prepare(ctx, replay)
	defer p.feed.stop()
	if begin := r.options.begin; begin != nil {
		if err := begin(); err != nil {
			return nil, err
		}
	}

	meter := startMeter()
	from := r.now()
	if !warmup && s.Slice > 0 {
		p.slicer = &aiperf.Slicer{Streaming: s.Streaming, SLO: r.slo, From: from, Length: int64(seconds(s.Slice))}
	}

	recorder := p.record()
	outer := ctx
	ctx, p.abort = context.WithCancel(outer)
	defer p.abort()
	if duration > 0 {
		stop := time.AfterFunc(duration, func() { p.endEarly("duration", seconds(s.Grace)) })
		defer stop.Stop()
	}

	if r.options.Stop != nil {
		defer context.AfterFunc(r.options.Stop, func() { p.endEarly(interrupted, 0) })()
	}

	if !warmup && s.OverSaturation > 0 {
		defer p.watchQueue(ctx, from)()
	}

	generated := func() error { return nil }
	if !warmup {
		generated = p.beginGenerators()
	}

	unhook := context.AfterFunc(p.cut, p.stop)
	defer unhook()
	progress := func() {}
	if f := r.options.Progress; f != nil {
		progress = r.every(context.Background(), time.Second, func(context.Context) { f(p.state(from)) })
	}

	switch {
	case !warmup && s.Users > 0:
		p.users(ctx)
	case !warmup && s.RequestRate > 0:
		p.paced(ctx, workload.NewSchedule(p.arrivals()).Next)
	case replay:
		p.replay(ctx)
	case s.Batch > 0:
		p.batched(ctx)
	default:
		p.closed(ctx)
	}

	err := generated()
	progress()
	to := r.now()
	if client != nil {
		meter.stop(client)
	}

	recorder()
	if err != nil {
		return nil, err
	}

	for _, g := range r.generators {
		if client != nil {
			client.CPUShare = max(client.CPUShare, g.used.CPUShare)
			client.SchedP99 = max(client.SchedP99, g.used.SchedP99)
			client.PeakRSS = max(client.PeakRSS, g.used.PeakRSS)
		}
	}

	if v := r.panicked.Load(); v != nil {
		panic(*v)
	}

	out := &Phase{Phase: aiperf.Phase{Summary: p.collector.Summary(), From: from, To: to}, Batches: p.batches,
		endedBy: p.reason(replay), Groups: p.groups.figures(&p.collector)}
	if out.Summary.Cut > 0 {
		out.To = out.Summary.To // without the grace
	}

	if p.slicer != nil {
		out.Slices = p.slicer.Slices(&p.collector)
	}

	if out.Summary.Requests == 0 && (warmup || out.Summary.Cut == 0) {
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
		return p.cut.Err() != nil
	}
}

// take reserves one request. It returns false if the phase is over or its request limit is reached. The last request
// ends the pauses of all conversations.
func (p *phase) take() bool {
	if p.over() {
		return false
	}

	if p.requests == 0 {
		return true
	}

	n := p.issued.Add(1)
	if n >= p.requests {
		p.stop()
	}
	return n <= p.requests
}

// prepare starts the phase's feed. A replay sends each conversation once, from the first.
func (p *phase) prepare(ctx context.Context, replay bool) {
	r := p.r
	first, count := r.next, int(p.requests)
	if p.sessions > 0 && (count == 0 || int(p.sessions) < count) {
		count = int(p.sessions)
	}

	if replay {
		first = 0
		if n := r.conversations.Len(); count == 0 || n < count {
			count = n
		}
	}

	p.feed = r.newFeed(ctx, first, count)
	r.next = first + count
}

// begin starts the next conversation, or returns nil if there are no more to start.
func (p *phase) begin() *session {
	n := p.begun.Add(1)
	if p.sessions > 0 && n > p.sessions {
		return nil // running conversations continue
	}

	ses := p.feed.next()
	if ses != nil {
		ses.number, ses.turns = int(n-1)*(len(p.r.generators)+1), len(ses.conv.Turns)
	}
	return ses
}

// giveUp draws after how long the next request is cancelled. It returns a negative value for never.
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

// turn sends the next turn of a session on a slot and records the result. due is when the request should be sent, and
// free is when the slot was available for it. turn returns when the response ended, which frees the slot, and whether
// the session has another turn to send.
func (p *phase) turn(ctx context.Context, s *slot, ses *session, due, free int64) (end int64, more bool) {
	r := p.r
	if r.prefill != nil {
		select {
		case at := <-r.prefill:
			s.prefilling = true
			free = max(free, at) // waiting for the cap is not a delay of the client
		case <-p.cut.Done():
			return r.now(), false
		}
	}

	t := &ses.conv.Turns[ses.turn]
	rec := r.record()
	rec.Reset()
	rec.Number, rec.Conversation, rec.Turn, rec.Warmup = ses.number, ses.conv.ID, ses.turn, p.warmup
	rec.Correlation = ses.id
	rec.Credit, rec.Free = due, free
	rec.Asked = t.Output
	body := ses.body
	if ses.turn > 0 {
		var err error
		if body, err = r.body(ses.history, t, ses.model); err != nil {
			panic("load: a request's body: " + err.Error()) // the first body was encoded
		}
	}

	if r.tokenizer != nil || len(ses.history) == 0 {
		rec.Input = ses.tokens + t.Tokens
	}

	rec.URL, rec.Model, rec.Images = ses.to.name, ses.model, len(t.Images)
	s.open.Store(true)
	s.send(ctx, rec, ses.to, body, p.giveUp())
	s.open.Store(false)
	s.filled(rec.Finish)
	if ses.turn > 0 || !ses.kept {
		r.recycle(body)
	}

	ses.id = rec.Correlation
	ses.turn++
	rec.Ended = p.endedAt.Load()
	end, more = rec.Finish, rec.Err == nil && ses.turn < ses.turns
	if more && ses.conv.Turns[ses.turn].History {
		prompt, answer := t.Prompt().Messages, s.text.String()
		if r.request.Endpoint == openai.Completions {
			prompt = []openai.Message{{Content: t.Text}}
		}
		ses.history = append(append(ses.history, prompt...),
			openai.Message{Role: "assistant", Content: openai.String(answer)})
		if r.tokenizer != nil {
			ses.tokens += t.Tokens + r.tokenizer.Count(answer)
		}
	}

	p.finish(rec)
	return end, more
}

// closed runs a closed loop: each slot sends its next request as soon as the previous one has ended.
func (p *phase) closed(ctx context.Context) {
	slots := p.r.slots
	ramp := seconds(p.r.settings.ConcurrencyRamp)
	if p.warmup {
		ramp = 0
	}

	var wg, ready sync.WaitGroup
	ready.Add(len(slots))
	var start int64
	begin := make(chan struct{})
	for i, s := range slots {
		p.r.spawn(&wg, func() {
			growStack()
			ready.Done()
			<-begin
			wait := ramp * time.Duration(i) / time.Duration(len(slots))
			due := start + int64(wait)
			if !p.sleep(wait) {
				return
			}

			for !p.over() {
				ses := p.begin()
				if ses == nil || !p.take() {
					return
				}
				due = p.converse(ctx, s, ses, due, due)
			}
		})
	}

	ready.Wait()
	start = p.r.now()
	close(begin)
	wg.Wait()
}

// growStack grows the stack of the goroutine once to what a request needs. Otherwise, the first request of each slot
// copies it several times.
//
//go:noinline
func growStack() byte {
	var needed [9 << 10]byte
	return needed[runtime.NumGoroutine()%len(needed)]
}

// converse sends all turns of a session on a slot, the first of them when it is due, and returns when the last
// response ended.
func (p *phase) converse(ctx context.Context, s *slot, ses *session, due, free int64) int64 {
	for {
		end, more := p.turn(ctx, s, ses, due, free)
		if !more || !p.think(ses) || !p.take() {
			return end
		}
		due = end + int64(ses.conv.Turns[ses.turn].Delay)
		free = due
	}
}

// batched sends closed batches: one request per slot, and the next batch after all of them have ended.
func (p *phase) batched(ctx context.Context) {
	due := p.r.now()
	for !p.over() {
		var wg sync.WaitGroup
		var last int64 // protected by p.mu
		from := p.r.now()

		for _, s := range p.r.slots {
			if !p.take() {
				break
			}
			ses := p.begin()
			if ses == nil {
				p.stop()
				break
			}
			p.r.spawn(&wg, func() {
				end, _ := p.turn(ctx, s, ses, due, due)
				p.mu.Lock()
				last = max(last, end)
				p.mu.Unlock()
			})
		}

		wg.Wait()
		if due = last; due > 0 && ctx.Err() == nil { // else the batch was cut
			p.batches = append(p.batches, Batch{From: from, To: due})
		}
	}
}

// think waits for the delay before a session's next turn. It returns false if the phase ended first.
func (p *phase) think(ses *session) bool {
	return p.sleep(ses.conv.Turns[ses.turn].Delay)
}

// sleep waits for d. It returns false if the phase ended first.
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

// Finished records are processed in batches, because waking another goroutine for each of them costs more than
// processing it. So many batches may wait, so that a burst of responses does not wait for the request log.
const (
	batchSize = 64
	waiting   = 32
)

// record returns a record to fill in, reused if possible.
func (r *runner) record() *aiperf.Record {
	select {
	case rec := <-r.free:
		return rec
	default:
		return &aiperf.Record{}
	}
}

// record starts the goroutine that processes finished records. The returned function waits until all of
// them are processed.
func (p *phase) record() (wait func()) {
	r := p.r
	r.free, r.records = make(chan *aiperf.Record, batchSize*waiting), make(chan []*aiperf.Record, waiting)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for range r.records { // after a panic, senders must not block on a full channel
			}
		}()
		defer r.caught()
		take := func(rec *aiperf.Record) {
			p.collector.Add(rec)
			if p.slicer != nil {
				p.slicer.Add(rec)
			}
			p.groups.add(&r.settings, rec, func() *aiperf.Collector {
				return &aiperf.Collector{Streaming: r.settings.Streaming, SLO: r.slo}
			})
			if r.options.Record != nil {
				r.options.Record(rec)
			}
			select {
			case r.free <- rec:
			default: // the buffer of free records is full
			}
		}

		for batch := range r.records {
			for _, rec := range batch {
				r.count(rec)
				take(rec)
			}
		}
	}()

	return func() {
		r.records <- r.finished
		r.finished = nil
		close(r.records)
		<-done
	}
}

// finish passes a record on, in the order of completion. It ends the phase if the record exceeds a limit of failed
// requests.
func (p *phase) finish(rec *aiperf.Record) {
	r := p.r
	r.mu.Lock()
	r.ended.add(rec)
	exceeded := ""
	if !p.warmup {
		exceeded = p.failures.exceeded(&r.settings, rec)
	}

	if r.finished = append(r.finished, rec); len(r.finished) == r.options.batch {
		r.records <- r.finished
		r.finished = make([]*aiperf.Record, 0, r.options.batch)
	}
	r.mu.Unlock()

	if exceeded != "" {
		p.endEarly(exceeded, seconds(r.settings.Grace))
	}
}
