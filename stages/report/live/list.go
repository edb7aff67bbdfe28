package live

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"time"

	"aicplan/engine/checkpoint"
)

// RunLine is a run in the list. Fields that its events do not contain are null or "".
type RunLine struct {
	Run      string    `json:"run"`
	Started  time.Time `json:"started"`
	Plan     string    `json:"plan,omitempty"`
	Host     string    `json:"host,omitempty"`
	Word     string    `json:"state"`
	ExitCode *int      `json:"exit_code"`
	Seconds  *float64  `json:"seconds"`
}

// Ends of an event file that are read for a line of the list: how a run began
// and how it ended, and not the night between.
const (
	headBytes = 4 << 20 // the first event names all stages
	tailBytes = 64 << 10
)

// glance reads the ends of a run's events.
func glance(run checkpoint.Run, dead func(host string, pid int) bool, now time.Time) RunLine {
	line := RunLine{Run: run.ID, Started: run.Started, Word: "unknown"}
	file, err := os.Open(filepath.Join(run.Dir, "events.ndjson"))
	if err != nil {
		return line
	}
	defer file.Close()
	s := State{Started: run.Started, Seen: run.Started}
	said := false

	var e event
	if json.NewDecoder(io.LimitReader(file, headBytes)).Decode(&e) == nil && e.Type == "run_start" {
		e.show()
		line.Plan, line.Host, s.PID = e.Plan, e.Host, e.PID
		if !e.At.IsZero() {
			s.Started, s.Seen, said = e.At, e.At, true
		}
	}

	if !s.glanceEnd(file, &said) {
		return line
	}

	if !s.Ended && dead != nil && s.PID > 0 && dead(line.Host, s.PID) {
		// What it wrote before it ended counts.
		s.Gone = s.glanceEnd(file, &said) && !s.Ended
	}

	line.Word, line.ExitCode = s.Word(now), s.ExitCode
	if said {
		line.Seconds = &s.Seconds
	}

	return line
}

// glanceEnd reads the last complete event of a run. It returns false if it cannot be read.
func (s *State) glanceEnd(file *os.File, said *bool) bool {
	info, err := file.Stat()
	if err != nil {
		return false
	}

	tail := make([]byte, min(info.Size(), tailBytes))
	n, err := file.ReadAt(tail, info.Size()-int64(len(tail)))
	if err != nil && err != io.EOF {
		return false
	}

	lines := bytes.Split(tail[:n], []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		var e event
		if json.Unmarshal(lines[i], &e) != nil || e.At.IsZero() {
			continue // incomplete: the writer was killed, or the line starts before the tail
		}

		s.Seen, *said = e.At, true
		s.Seconds = s.Seen.Sub(s.Started).Seconds()
		if e.Type == "run_end" {
			s.Ended, s.ExitCode, s.Seconds = true, &e.ExitCode, e.Seconds
		}

		break
	}

	return true
}

// lines lists runs, the newest first. What ended does not change.
func (s *Server) lines(all []checkpoint.Run, now time.Time) []RunLine {
	out := make([]RunLine, 0, len(all))
	ended := make(map[string]RunLine, len(all))
	s.mu.Lock()
	known := s.ended
	s.mu.Unlock()

	for i := len(all) - 1; i >= 0; i-- {
		line, ok := known[all[i].ID]
		if !ok {
			line = glance(all[i], s.Dead, now)
		}
		if line.ExitCode != nil {
			ended[line.Run] = line
		}
		out = append(out, line)
	}

	s.mu.Lock()
	s.ended = ended
	s.mu.Unlock()

	return out
}
