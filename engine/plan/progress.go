package plan

import (
	"fmt"
	"sync/atomic"
	"time"

	"aicplan/sink/base/textutil"
)

// Progress reports the progress of planning. The methods of a nil Progress do nothing.
type Progress struct {
	total, done atomic.Int64
	report      func(text string, last bool)
	stop, ended chan struct{}
	reported    bool
}

// NewProgress calls report periodically from its own goroutine until Close. The last call has last set if there
// was an earlier one.
func NewProgress(every time.Duration, report func(text string, last bool)) *Progress {
	p := &Progress{report: report, stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.reported = true
				report(p.text(), false)
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
	if p.reported {
		p.report("", true)
	}
}

func (p *Progress) text() string {
	if total := int(p.total.Load()); total > 0 {
		return fmt.Sprintf("Planning: %d of %s ...", p.done.Load(), textutil.Counted(total, "stage"))
	}
	return "Planning: reading the stages ..."
}

// start sets the number of stages.
func (p *Progress) start(stages int) {
	if p != nil {
		p.total.Store(int64(stages))
	}
}

// planned counts a stage as done.
func (p *Progress) planned() {
	if p != nil {
		p.done.Add(1)
	}
}
