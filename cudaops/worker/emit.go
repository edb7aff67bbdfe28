package worker

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Start implements Emitter.
func (s *server) Start(seq int64) {
	s.mu.Lock()
	h := s.held[seq]
	if h != nil {
		s.startNo++
		h.lastNo = s.startNo
		if h.started.IsZero() {
			h.started = time.Now()
		}
	}

	s.mu.Unlock()
	if h == nil {
		panic(fmt.Sprintf("worker: Start of case %d, which is not held", seq))
	}

	s.outMu.Lock()
	s.line = append(strconv.AppendInt(append(s.line[:0], `{"type":"start","seq":`...), seq, 10), "}\n"...)
	_, err := s.out.Write(s.line)
	err = errors.Join(err, s.out.Flush()) // the engine must know which case to blame before the work begins
	s.outMu.Unlock()
	s.stopAt(err)
}

// Result implements Emitter.
func (s *server) Result(seq int64, rows []Row, seconds float64) {
	s.result(seq, rows, seconds)
	s.flush()
}

// result is Result without the flush.
func (s *server) result(seq int64, rows []Row, seconds float64) {
	h := s.end(seq)
	if seconds == 0 && !h.started.IsZero() {
		seconds = time.Since(h.started).Seconds()
	}

	finite := make([]Row, len(rows))
	for i, r := range rows {
		finite[i] = finiteRow(r)
	}

	line, err := encodeLine(CaseResult{Type: TypeResult, Seq: seq, Rows: finite, Seconds: seconds,
		Attachments: h.attached})
	if err != nil {
		// The case must end although its rows cannot be encoded.
		line, err = encodeLine(Error{Type: TypeError, Seq: seq, Failure: Failure{
			Class: ClassCollectorBug, Message: "the rows cannot be sent: " + err.Error(),
		}})
	}

	if err != nil {
		s.stopAt(err)
		return
	}

	s.outMu.Lock()
	_, err = s.out.Write(line)
	s.outMu.Unlock()
	s.stopAt(err)
}

// Attach implements Emitter.
func (s *server) Attach(seq int64, a Attachment) {
	s.mu.Lock()
	h := s.held[seq]
	if h != nil {
		h.attached = append(h.attached, a)
	}

	s.mu.Unlock()
	if h == nil {
		panic(fmt.Sprintf("worker: Attach to case %d, which is not held", seq))
	}
}

// Error implements Emitter.
func (s *server) Error(seq int64, f Failure) {
	h := s.end(seq)
	f.Traceback = clip(f.Traceback, maxTraceback)
	f.Message = clip(f.Message, maxTraceback)
	s.sendOrStop(Error{Type: TypeError, Seq: seq, Failure: f, Attachments: h.attached})
}

// Log implements Emitter.
func (s *server) Log(level, format string, args ...any) {
	s.sendOrStop(Log{Type: TypeLog, Level: level, Text: fmt.Sprintf(format, args...)})
}

// maxTraceback bounds the text of one failure, in bytes.
const maxTraceback = 256 << 10

// clip shortens a text in its middle, because both ends of a traceback matter.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}

	half := most / 2
	return fmt.Sprintf("%s\n... %d bytes left out ...\n%s", text[:half], len(text)-2*half, text[len(text)-half:])
}

// end removes a held case. It panics if the case is not held.
func (s *server) end(seq int64) *heldCase {
	s.mu.Lock()
	h := s.held[seq]
	if h != nil {
		s.drop(seq)
	}

	s.mu.Unlock()
	if h == nil {
		panic(fmt.Sprintf("worker: an end of case %d, which is not held", seq))
	}

	return h
}

func (s *server) sendOrStop(msg any) {
	line, err := encodeLine(msg)
	s.writeOrStop(line, err)
}

// writeOrStop writes a line. If the engine can no longer be reached, it ends the
// worker's context, because further results would be lost.
func (s *server) writeOrStop(line []byte, err error) {
	if err == nil {
		err = s.write(line)
	}

	s.stopAt(err)
}

func (s *server) stopAt(err error) {
	if err != nil {
		s.cancel(fmt.Errorf("cannot write to the engine: %w", err))
	}
}

// flush sends the buffered messages.
func (s *server) flush() {
	s.outMu.Lock()
	err := s.out.Flush()
	s.outMu.Unlock()
	s.stopAt(err)
}

func (s *server) send(msg any) error {
	line, err := encodeLine(msg)
	if err != nil {
		return err
	}

	return s.write(line)
}

func (s *server) write(line []byte) error {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	if _, err := s.out.Write(line); err != nil {
		return err
	}

	return s.out.Flush()
}
