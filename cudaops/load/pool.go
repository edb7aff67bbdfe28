package load

import (
	"slices"
	"sync"
	"time"
)

// pool hands out slots. It prefers the slot used last, whose connection is the warmest.
type pool struct {
	r    *runner
	mu   sync.Mutex
	idle []*slot
	// cap has one element for each request that may be open: when its place became free. It is nil if the number is
	// unlimited.
	cap chan int64
}

// newPool returns a pool of all slots. In the concurrency ramp, one place after the other becomes free.
func newPool(r *runner) *pool {
	l := &pool{r: r, idle: slices.Clone(r.slots)}
	if n := r.settings.Concurrency; n > 0 {
		l.cap = make(chan int64, n)
		for i := range n {
			wait := seconds(r.settings.ConcurrencyRamp) * time.Duration(i) / time.Duration(n)
			if wait == 0 {
				l.cap <- 0
				continue
			}
			time.AfterFunc(wait, func() { l.cap <- r.now() })
		}
	}
	return l
}

// get returns a slot for a reserved request that is due, and when it was available: at the due time, or later if the
// cap was reached. It returns false if the phase was cut first.
func (l *pool) get(due int64, cut <-chan struct{}) (s *slot, free int64, ok bool) {
	free = due
	if l.cap != nil {
		select {
		case at := <-l.cap:
			free = max(due, at)
		case <-cut:
			return nil, 0, false
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		s := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return s, free, true
	}

	return l.r.newSlot(), free, true
}

// put returns a slot whose last response ended at a time.
func (l *pool) put(s *slot, end int64) {
	l.mu.Lock()
	l.idle = append(l.idle, s)
	l.mu.Unlock()
	if l.cap != nil {
		l.cap <- end
	}
}
