package live

import (
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

// Line returns the run's line of the list at the given time.
func (s *State) Line(now time.Time) RunLine {
	line := RunLine{Run: s.Run, Started: s.Started, Plan: s.Plan, Host: s.Host, Word: "unknown"}
	if s.Version > 0 {
		line.Word, line.ExitCode, line.Seconds = s.Word(now), s.ExitCode, &s.Seconds
	}
	return line
}

// List returns a line for each run, in their order. If the events of a run cannot be read, its state is "unknown".
func List(runs []checkpoint.Run, dead func(host string, pid int) bool, now time.Time) []RunLine {
	out := []RunLine{}
	for _, r := range runs {
		f := Follow(r, dead)
		if err := f.Poll(); err != nil {
			f.State = newState(r.ID)
			f.State.Started = r.Started
		}
		out = append(out, f.State.Line(now))
	}
	return out
}

// lines lists runs, the newest first. The lines of ended runs are kept, because they do not change.
func (s *Server) lines(all []checkpoint.Run, now time.Time) []RunLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []RunLine{}
	ended := map[string]RunLine{}
	for i := len(all) - 1; i >= 0; i-- {
		line, ok := s.ended[all[i].ID]
		if !ok {
			line = List(all[i:i+1], s.Dead, now)[0]
		}
		if line.ExitCode != nil {
			ended[line.Run] = line
		}
		out = append(out, line)
	}

	s.ended = ended
	return out
}
