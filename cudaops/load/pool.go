package load

import "sync"

// pool hands out slots. It prefers the slot used last, whose connection is the warmest.
type pool struct {
	mu    sync.Mutex
	idle  []*slot
	all   *[]*slot
	fresh func() *slot
	cap   chan struct{} // nil means unlimited
}

func newPool(r *runner, slots *[]*slot) *pool {
	l := &pool{all: slots, fresh: r.newSlot, idle: append([]*slot(nil), *slots...)}
	if n := r.settings.Concurrency; n > 0 {
		l.cap = make(chan struct{}, n)
	}
	return l
}

// get returns a slot and waits for the concurrency cap. It returns false if the phase ended first.
func (l *pool) get(ending <-chan struct{}) (*slot, bool) {
	if l.cap != nil {
		select {
		case l.cap <- struct{}{}:
		case <-ending:
			return nil, false
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		s := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return s, true
	}

	s := l.fresh()
	*l.all = append(*l.all, s)
	return s, true
}

func (l *pool) put(s *slot) {
	l.mu.Lock()
	l.idle = append(l.idle, s)
	l.mu.Unlock()
	if l.cap != nil {
		<-l.cap
	}
}
