package worker

import (
	"slices"
	"strings"
	"time"
)

type slotState int

const (
	slotOff      slotState = iota // no process
	slotStarting                  // waiting for hello
	slotUp                        // accepts cases
	slotDraining                  // asked to end, accepts no more cases
	slotKilling                   // killed, waiting for its end
	slotDead                      // given up for this run
)

// flight is a task that a worker holds.
type flight struct {
	task    *Task
	seq     int64
	started time.Time // of the last start
	startNo int       // order of starts; 0 if not started
	rows    []Row     // received before its end
	example bool      // its worker runs the example of the case
}

// slot is the state of a Slot.
type slot struct {
	Slot
	state slotState
	proc  *Process
	set   Settings // that proc received last
	held  []*flight
	life
	fails    int // consecutive failed starts and deaths without a case
	everUp   bool
	lastErr  error
	deadline time.Time // of the current case or of the shutdown; zero means none
}

// life is the state of a slot that ends with its process.
type life struct {
	code    map[string]*Code // that the process has reported, by op
	ran     int              // cases that it has ended
	starts  int
	baseRSS int64
	cleaned bool   // the device was clean when it started
	dirty   bool   // it was killed or died
	recycle string // why it gets no more cases, or ""
	bye     string // why it requests a new process

	// waits is true while the worker waits for the instrument of its device. No deadline
	// applies then.
	waits bool
}

// find returns the held task with a seq, or nil.
func (s *slot) find(seq int64) *flight {
	for _, f := range s.held {
		if f.seq == seq {
			return f
		}
	}

	return nil
}

// current returns the held task that was started last, or nil.
func (s *slot) current() *flight {
	var last *flight
	for _, f := range s.held {
		if f.startNo > 0 && (last == nil || f.startNo > last.startNo) {
			last = f
		}
	}

	return last
}

func (s *slot) drop(f *flight) {
	s.held = slices.DeleteFunc(s.held, func(o *flight) bool { return o == f })
}

// arm sets the deadline of the current case, or of the oldest one if none has started.
func (s *slot) arm(now time.Time) {
	s.deadline = time.Time{}
	if len(s.held) == 0 || s.waits {
		return
	}

	f := s.current()
	if f == nil {
		f = s.held[0]
	}

	if f.task.Deadline > 0 {
		s.deadline = now.Add(f.task.Deadline)
	}
}

// maxCrashReport bounds the output of a dead worker in a failure, in bytes.
const maxCrashReport = 16 << 10

// endReason describes the end of a process that ran no case.
func (s *slot) endReason(x Exit) string {
	if s.bye != "" {
		return "it requested a new process: " + s.bye
	}

	return s.deathFailure(x).Message
}

// deathFailure describes the end of a process that had not ended its cases.
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
		f.Message += "; processes that it had started were killed"
	}

	return f
}
