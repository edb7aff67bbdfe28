package worker

import (
	"slices"
	"strings"
	"time"
)

type slotState int

const (
	slotOff      slotState = iota // no process
	slotStarting                  // hello is awaited
	slotUp                        // takes cases
	slotDraining                  // asked to end; takes no more cases
	slotKilling                   // killed; its end is awaited
	slotDead                      // given up for this run
)

// flight is a task that a worker holds.
type flight struct {
	task    *Task
	seq     int64
	started time.Time // of the last start
	startNo int       // order of starts; 0 when not started
	rows    []Row     // that came before its end
}

// slot is one worker's place with what runs there.
type slot struct {
	Slot
	state   slotState
	proc    *Process
	set     Settings // that proc was given last
	held    []*flight
	ended   seqSet // what this process has ended, to name offenders
	ran     int    // cases that this process has ended
	starts  int
	baseRSS int64
	fresh   bool   // reserved for a task that wants a fresh process
	dirty   bool   // the last process was killed or died
	recycle string // why it takes no more cases, "" while it does
	bye     string // why it wants to be replaced

	// waits is set while the worker waits for the instrument of its device: it can
	// miss no deadline then.
	waits bool

	fails    int // starts and idle deaths in a row without a case in between
	everUp   bool
	lastErr  error
	deadline time.Time // what runs out next; zero for nothing
	stall    time.Time // when the worker must have ended some case
}

// seqSet is a set of growing numbers.
type seqSet struct {
	from int64 // of the first word, a multiple of 64
	bits []uint64
}

func (s *seqSet) add(seq int64) {
	if s.bits == nil {
		s.from = seq &^ 63
	}
	if seq < s.from { // given before what ended first
		more := make([]uint64, (s.from-seq&^63)/64)
		s.from, s.bits = seq&^63, append(more, s.bits...)
	}
	at := int(seq-s.from) / 64
	for len(s.bits) <= at {
		s.bits = append(s.bits, 0)
	}
	s.bits[at] |= 1 << (seq & 63)
}

func (s *seqSet) has(seq int64) bool {
	at := (seq - s.from) / 64
	return seq >= s.from && at < int64(len(s.bits)) && s.bits[at]&(1<<(seq&63)) != 0
}

// find returns the flight of a seq, or nil.
func (s *slot) find(seq int64) *flight {
	for _, f := range s.held {
		if f.seq == seq {
			return f
		}
	}
	return nil
}

// suspect is the flight that was started last, or nil when none was.
func (s *slot) suspect() *flight {
	var worst *flight
	for _, f := range s.held {
		if f.startNo > 0 && (worst == nil || f.startNo > worst.startNo) {
			worst = f
		}
	}
	return worst
}

func (s *slot) drop(f *flight) {
	s.held = slices.DeleteFunc(s.held, func(o *flight) bool { return o == f })
}

// arm sets the deadline anew: that of the case in work, or of the oldest held
// one while the worker has not said what it works on.
func (s *slot) arm(now time.Time) {
	s.deadline = time.Time{}
	if len(s.held) == 0 || s.waits {
		return
	}
	f := s.suspect()
	if f == nil {
		f = s.held[0]
	}
	if f.task.Deadline > 0 {
		s.deadline = now.Add(f.task.Deadline)
	}
}

// armStall bounds the time until the next end of a case, so that a worker that
// starts cases over and over is found as well.
func (s *slot) armStall(now time.Time) {
	s.stall = time.Time{}
	if s.waits {
		return
	}
	var sum time.Duration
	for _, f := range s.held {
		if f.task.Deadline == 0 {
			return
		}
		sum += f.task.Deadline
	}
	if sum > 0 {
		s.stall = now.Add(3 * sum)
	}
}

// due is when the slot needs attention next; zero for never.
func (s *slot) due() time.Time {
	if s.stall.IsZero() || (!s.deadline.IsZero() && s.deadline.Before(s.stall)) {
		return s.deadline
	}
	return s.stall
}

// maxCrashReport bounds what a failure keeps of a dead worker's output.
const maxCrashReport = 16 << 10

// endReason says why a process ended that ran nothing.
func (s *slot) endReason(x Exit) string {
	if s.bye != "" {
		return "it asked to be replaced: " + s.bye
	}
	return s.deathFailure(x).Message
}

// deathFailure describes a process that ended while it worked on a case.
func (s *slot) deathFailure(x Exit) Failure {
	f := Failure{Exception: x.Exception, Traceback: clip(strings.TrimSpace(x.Tail), maxCrashReport)}
	switch {
	case x.Exception == "exit status 0":
		f.Message = "the worker process ended with status 0 in the middle of its work"
	case x.Exception == "SIGKILL":
		f.Message = "the worker process was killed by SIGKILL; the kernel does that when memory runs out"
	case strings.HasPrefix(x.Exception, "SIG"), strings.HasPrefix(x.Exception, "signal"):
		f.Message = "the worker process was ended by " + x.Exception
	default:
		f.Message = "the worker process ended with " + x.Exception
	}
	if x.Orphans {
		f.Message += "; processes that it had started were ended"
	}
	return f
}
