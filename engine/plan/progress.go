package plan

import (
	"fmt"
	"sync"
	"time"

	"aicplan/sink/base/textutil"
)

// Progress reports the progress of planning. The methods of a nil Progress do nothing.
type Progress struct {
	mu    sync.Mutex
	total int
	done  int
	busy  []string // stages in work, in the order of their start
	told  bool

	tell  func(text string, last bool)
	stop  chan struct{}
	ended chan struct{}
}

// NewProgress calls tell periodically from its own goroutine until Close. The last call has last set if there was
// an earlier one.
func NewProgress(every time.Duration, tell func(text string, last bool)) *Progress {
	p := &Progress{tell: tell, stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.told = true
				tell(p.text(), false)
			case <-p.stop:
				return
			}
		}
	}()

	return p
}

// Close stops the calls.
func (p *Progress) Close() {
	if p == nil {
		return
	}
	close(p.stop)
	<-p.ended
	if p.told {
		p.tell("", true)
	}
}

func (p *Progress) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == 0 {
		return "Planning: reading the stages ..."
	}
	at := ""
	if len(p.busy) > 0 {
		at = ", at " + p.busy[0]
	}
	return fmt.Sprintf("Planning: %d of %s%s ...", p.done, textutil.Counted(p.total, "stage"), at)
}

// of sets the number of stages.
func (p *Progress) of(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = n
}

// begin records the start of a stage and returns a function that records its end.
func (p *Progress) begin(address string) (end func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = append(p.busy, address)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done++
		for i, b := range p.busy {
			if b == address {
				p.busy = append(p.busy[:i], p.busy[i+1:]...)
				return
			}
		}
	}
}
