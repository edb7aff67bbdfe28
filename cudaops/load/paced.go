package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// paced sends one request per arrival. A later turn that is ready is sent before a new conversation starts,
// so that the rate counts requests, not conversations.
func (p *phase) paced(ctx context.Context, next func() time.Duration) {
	l := newPool(p.r)
	var ready []*session // those whose next turn may be sent, in order; protected by p.mu
	start := p.r.now()
	var wg sync.WaitGroup
	var live atomic.Int64 // conversations that may have more turns

	// Prepare the next conversation before it is due, not when it is due.
	fresh := p.begin()
	for {
		due := start + int64(next())
		if !p.sleep(time.Duration(due - p.r.now())) {
			break
		}

		var ses *session
		p.mu.Lock()
		if len(ready) > 0 {
			ses, ready = ready[0], ready[1:]
		}
		p.mu.Unlock()

		if ses == nil {
			if ses = fresh; ses == nil {
				if live.Load() == 0 {
					break
				}
				p.unused.Add(1)
				continue // only later turns are left and none of them is ready
			}
			fresh = nil
			live.Add(1)
		}

		if !p.take() {
			break
		}

		s, free, ok := l.get(due, p.cut.Done())
		if !ok {
			break
		}

		p.r.spawn(&wg, func() {
			end, more := p.turn(ctx, s, ses, due, free)
			l.put(s, end)
			if more && p.think(ses) {
				p.mu.Lock()
				ready = append(ready, ses)
				p.mu.Unlock()
			} else {
				live.Add(-1)
			}
		})

		if fresh == nil {
			fresh = p.begin()
		}
	}

	wg.Wait()
}

// replay sends the conversations of a trace at their times.
func (p *phase) replay(ctx context.Context) {
	l := newPool(p.r)
	start := p.r.now()
	var wg sync.WaitGroup

	for ses := p.begin(); ses != nil; ses = p.begin() {
		due := start + int64(ses.conv.At)
		if !p.sleep(time.Duration(due-p.r.now())) || !p.take() {
			break
		}

		s, free, ok := l.get(due, p.cut.Done())
		if !ok {
			break
		}

		p.r.spawn(&wg, func() { l.put(s, p.converse(ctx, s, ses, due, free)) })
	}

	wg.Wait()
}
