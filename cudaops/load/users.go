package load

import (
	"context"
	"sync"
	"time"
)

// users sends the conversations of users who share the request rate. A user's turns are due users/rate
// seconds apart. After its last turn, a user starts a new conversation. Users start with different numbers
// of remaining turns, as they would have after running for a long time: the first user has the fewest left.
func (p *phase) users(ctx context.Context) {
	s := &p.r.settings
	l := newPool(p.r)
	gap := int64(float64(time.Second) * float64(s.Users) / s.RequestRate)
	start := p.r.now()
	var wg sync.WaitGroup

	for i := range s.Users {
		ses := p.begin()
		if ses == nil {
			break
		}

		ses.turns = (ses.turns*(i+1) + s.Users - 1) / s.Users // at least one
		due := start + int64(float64(time.Second)*float64(i)/s.RequestRate)
		p.r.spawn(&wg, func() {
			for p.sleep(time.Duration(due-p.r.now())) && p.take() {
				sl, free, ok := l.get(due, p.cut.Done())
				if !ok {
					return
				}

				end, more := p.turn(ctx, sl, ses, due, free)
				l.put(sl, end)
				if !more {
					if ses = p.begin(); ses == nil {
						return
					}
				}

				// If the response took longer than the gap, the next turn is due at once.
				due = max(due+gap, end)
			}
		})
	}

	wg.Wait()
}
