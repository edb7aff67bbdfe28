package load

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
)

// prepared is a conversation and the body of its first request.
type prepared struct {
	conv  *workload.Conversation
	body  []byte
	to    *target
	model string
}

// Limits of what is prepared ahead: bytes of request bodies, and number of conversations. At least minAhead
// conversations are prepared whatever their size.
const (
	maxAheadBytes = 128 << 20
	maxAhead      = 16384
	minAhead      = 16
)

// maxKeptBytes limits the size of the bodies that are kept for conversations which are sent several times.
const maxKeptBytes = 64 << 20

// feed prepares conversations in other goroutines ahead of the senders, so that no prompt is built between a
// response and the next request. If a sender has to wait for the feed, its request is late, which is part of send_lag.
type feed struct {
	r     *runner
	queue chan chan prepared // in order
	quit  chan struct{}
	wg    sync.WaitGroup
}

// prepareTime is how long a phase waits for further conversations when the first ones are ready. While many senders run,
// the feed gets little processor time.
const prepareTime = 50 * time.Millisecond

// newFeed starts to prepare conversations, beginning at position first of the runner's order. It returns when the
// first ones are ready, and after prepareTime or when all of them are ready. count is the number of conversations that the phase starts, or 0 if it is unlimited.
func (r *runner) newFeed(ctx context.Context, first, count int) *feed {
	size := r.bodySize()
	ahead := min(max(maxAheadBytes/size, minAhead), maxAhead)
	if count > 0 {
		ahead = min(ahead, count)
	}

	f := &feed{r: r, queue: make(chan chan prepared, ahead), quit: make(chan struct{})}
	keep := r.conversations.Len()*size <= maxKeptBytes
	type job struct {
		index, url, model int
		to                chan prepared
	}

	models := r.settings.models()
	urls, mix := newRotation(r.settings.targetURLs(), r.settings.URLWeights), newRotation(models, r.settings.Models)
	jobs := make(chan job)
	ready := make(chan struct{}, ahead)

	r.spawn(&f.wg, func() {
		defer close(f.queue)
		defer close(jobs)

		for i := 0; count == 0 || i < count; i++ {
			j := job{int(r.order[(first+i)%len(r.order)]), urls.next(), mix.next(), make(chan prepared, 1)}
			select {
			case f.queue <- j.to:
			case <-f.quit:
				return
			}
			select {
			case jobs <- j:
			case <-f.quit:
				return
			}
		}
	})

	for range max(1, runtime.GOMAXPROCS(0)-1) {
		r.spawn(&f.wg, func() {
			for j := range jobs {
				p := r.prepare(j.index, models[j.model], keep)
				p.to = r.targets[j.url]
				j.to <- p
				select {
				case ready <- struct{}{}:
				default: // nothing waits for the first ones any more
				}
			}
		})
	}

	needed := min(ahead, max(2*r.width(), minAhead))
	var enough <-chan time.Time
	for i := range ahead {
		if i == needed {
			enough = time.After(prepareTime)
		}
		select {
		case <-ready:
		case <-enough:
			return f
		case <-ctx.Done():
			return f
		}
	}

	return f
}

// next returns the next conversation. It returns false if ctx is done or all conversations were returned.
func (f *feed) next(ctx context.Context) (p prepared, ok bool) {
	select {
	case to, more := <-f.queue:
		if !more {
			return p, false
		}
		select {
		case p = <-to:
			return p, true
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return p, false
}

// stop ends the preparation.
func (f *feed) stop() {
	close(f.quit)
	for range f.queue { // the senders have ended
	}
	f.wg.Wait()
}

// bodySize estimates the size of a first request's body in bytes.
func (r *runner) bodySize() int {
	s := &r.settings
	const perToken = 7
	if s.Trace+s.Dataset == "" {
		return 256 + perToken*(int(s.ISL)*max(s.Documents, 1)+s.PrefixLength) + s.Images*s.ImageWidth*s.ImageHeight/8
	}

	total := 0
	for i := range r.conversations.Len() {
		t := &r.conversations.At(i).Turns[0]
		total += len(t.Text) + perToken*len(t.IDs)
		for _, m := range t.Messages {
			total += len(m)
		}
	}
	return 256 + total/r.conversations.Len()
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

	p := prepared{conv: c, body: body, model: model}
	if keep {
		r.kept[i].Store(&p)
	}
	return p
}

// keptBodies returns an empty store for n conversations.
func keptBodies(n int) []atomic.Pointer[prepared] { return make([]atomic.Pointer[prepared], n) }

// body returns the JSON body of a turn, including the earlier turns of its conversation.
func (r *runner) body(history []openai.Message, t *workload.Turn, model string) ([]byte, error) {
	p := openai.Prompt{Text: t.Text, IDs: t.IDs, Tools: t.Tools, Documents: t.Documents}
	if e := r.request.Endpoint; e == openai.Chat || e == openai.Responses {
		p.Messages = append(history[:len(history):len(history)], messages(t)...)
	} else if len(history) > 0 && t.IDs == nil {
		text := ""
		for _, m := range history {
			text += m.Content + "\n"
		}
		p.Text = text + t.Text
	}

	request := r.request
	request.Model = model
	return request.Append(make([]byte, 0, len(p.Text)+256), p, t.Output)
}

// messages returns the messages of a turn.
func messages(t *workload.Turn) []openai.Message {
	if t.Messages == nil {
		return []openai.Message{{Role: "user", Content: t.Text, Images: t.Images}}
	}

	var out []openai.Message
	for _, raw := range t.Messages {
		out = append(out, openai.Message{Raw: raw})
	}
	return out
}
