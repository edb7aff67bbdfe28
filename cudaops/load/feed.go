package load

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"time"

	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
)

// prepared is a conversation and the body of its first request.
type prepared struct {
	conv  *workload.Conversation
	body  []byte
	kept  bool // the body is sent again
	to    *target
	model string
}

// Limits of what is prepared ahead: bytes of request bodies, and number of conversations, or twice the number
// of senders if that is more. At least minAhead conversations are prepared whatever their size.
const (
	maxAheadBytes = 128 << 20
	maxAhead      = 4096
	minAhead      = 16
)

// maxKeptBytes limits the size of the bodies that are kept for conversations which are sent several times.
const maxKeptBytes = 64 << 20

// feed prepares conversations in other goroutines ahead of the senders, so that no prompt is built between a
// response and the next request. If the next conversation is not ready, the sender prepares it, and its request is
// late, which is part of send_lag.
type feed struct {
	r           *runner
	again       bool // conversations are sent several times
	models      []string
	count, most int // conversations of the phase, or 0 if unlimited; and how many may be prepared ahead
	wg          sync.WaitGroup

	mu      sync.Mutex
	room    *sync.Cond // signalled when conversations were taken or the feed stops
	at      int        // position in the runner's order of the next conversation
	made    int
	built   int // bodies so far
	bytes   int // size of these bodies
	urls    *rotation
	mix     []*rotation // of the models, for each URL
	ahead   []*coming
	stopped bool
}

// coming is a conversation that the goroutine which created it prepares.
type coming struct {
	index, url, model int
	keep              bool
	preparing         sync.WaitGroup
	session
}

// prepareTime is how long a phase waits for further conversations when the first ones are ready. While many senders
// run, the feed gets little processor time.
const prepareTime = 200 * time.Millisecond

// newFeed starts to prepare conversations, beginning at position first of the runner's order. It returns when the
// first ones are ready, and after prepareTime or when all of them are ready. count is the number of conversations that
// the phase starts, or 0 if it is unlimited.
func (r *runner) newFeed(ctx context.Context, first, count int) *feed {
	models := r.settings.models()
	needed := max(2*r.width(), minAhead)
	f := &feed{r: r, models: models, at: first, count: count, again: count == 0 || count > len(r.order),
		most: max(maxAhead, needed), urls: newRotation(r.settings.targetURLs(), r.settings.URLWeights)}
	f.room = sync.NewCond(&f.mu)

	// With one rotation, each of two servers would get the requests for one of two models.
	for i := range r.targets {
		mix := newRotation(models, r.settings.Models)
		for range i { // each server begins with another model, so that the shares of few requests are right too
			mix.next()
		}
		f.mix = append(f.mix, mix)
	}

	for range max(1, runtime.GOMAXPROCS(0)-1) {
		r.spawn(&f.wg, func() {
			for f.prepareNext(true) {
			}
		})
	}

	began := time.Now()
	for i := 0; ctx.Err() == nil && (i < needed || time.Since(began) < prepareTime) && f.prepareNext(false); i++ {
	}
	return f
}

// limit returns how many conversations to prepare ahead. The caller holds the lock.
func (f *feed) limit() int {
	return min(max(maxAheadBytes/max(f.mean(), 1), minAhead), f.most)
}

// mean returns the mean size of the bodies so far. The caller holds the lock.
func (f *feed) mean() int { return f.bytes / max(f.built, 1) }

// prepareNext prepares one more conversation. If enough are prepared, it waits until there is room, or returns false.
// It returns false too if there are no more, or if the feed is stopped.
func (f *feed) prepareNext(wait bool) bool {
	f.mu.Lock()
	for wait && !f.stopped && len(f.ahead) >= f.limit() {
		f.room.Wait()
	}

	var c *coming
	if !f.stopped && len(f.ahead) < f.limit() {
		c = f.create()
	}
	if c != nil {
		f.ahead = append(f.ahead, c)
	}
	f.mu.Unlock()

	if c == nil {
		return false
	}
	f.prepare(c)
	return true
}

// create returns the next conversation, not yet prepared, or nil if there are no more. The caller holds the lock.
func (f *feed) create() *coming {
	if f.count > 0 && f.made == f.count {
		return nil
	}

	order := f.r.order
	c := &coming{index: int(order[(f.at+f.made)%len(order)]), url: f.urls.next(),
		keep: f.again && f.mean()*len(order) <= maxKeptBytes}
	c.model = f.mix[c.url].next()
	c.preparing.Add(1)
	f.made++
	return c
}

func (f *feed) prepare(c *coming) {
	defer c.preparing.Done() // after a panic, too
	c.prepared = f.r.prepare(c.index, f.models[c.model], c.keep)
	c.to = f.r.targets[c.url]

	f.mu.Lock()
	defer f.mu.Unlock()
	f.built++
	f.bytes += len(c.body)
}

// next returns the next conversation, or nil if there are no more.
func (f *feed) next() *session {
	f.mu.Lock()
	var c *coming
	ready := len(f.ahead) > 0
	if ready {
		c, f.ahead[0] = f.ahead[0], nil
		f.ahead = f.ahead[1:]
	} else {
		c = f.create()
	}
	if 2*len(f.ahead) < f.limit() {
		f.room.Broadcast()
	}
	f.mu.Unlock()

	switch {
	case c == nil:
		return nil
	case ready:
		c.preparing.Wait()
	default:
		f.prepare(c)
	}
	return &c.session
}

// stop ends the preparation.
func (f *feed) stop() {
	f.mu.Lock()
	f.stopped = true
	f.room.Broadcast()
	f.mu.Unlock()
	f.wg.Wait()
}

// prepare returns conversation i. If keep is set, it is stored for the next call.
func (r *runner) prepare(i int, model string, keep bool) prepared {
	if p := r.kept[i].Load(); p != nil && p.model == model {
		return *p
	}

	c := r.conversations.At(i)
	body, err := r.body(nil, &c.Turns[0], model)
	if err != nil {
		// The extra inputs were checked before the run, and text can always be encoded as JSON.
		panic("load: a request's body: " + err.Error())
	}

	p := prepared{conv: c, body: body, kept: keep, model: model}
	if keep {
		p.body = bytes.Clone(body)
		r.recycle(body)
		r.kept[i].Store(&p)
	}
	return p
}

// recycle reuses the memory of a body that was sent. A load with long prompts spends much time on memory otherwise.
func (r *runner) recycle(body []byte) { r.bodies.Put(&body) }

// body returns the JSON body of a turn, including the earlier turns of its conversation.
func (r *runner) body(history []openai.Message, t *workload.Turn, model string) ([]byte, error) {
	p := t.Prompt()
	if e := r.request.Endpoint; e == openai.Chat || e == openai.Responses {
		p.Messages = append(history[:len(history):len(history)], p.Messages...)
	} else if len(history) > 0 {
		var texts []openai.Text
		for _, m := range history {
			texts = append(texts, m.Content)
		}
		p.Text = openai.Join(append(texts, t.Text))
	}

	request := r.request
	request.Model = model
	size := t.Bytes + t.Bytes/64 + 256
	b, _ := r.bodies.Get().(*[]byte)
	if b == nil || cap(*b) < size || cap(*b) > 2*size {
		c := make([]byte, 0, size)
		b = &c
	}
	return request.Append((*b)[:0], p, t.Output)
}
