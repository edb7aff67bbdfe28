package live

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// Follower reads the events of one run as they are written.
type Follower struct {
	path   string
	dead   func(host string, pid int) bool
	offset int64  // of the first line that was not whole
	State  *State // as of the last Poll
}

// Follow begins to follow a run. dead reports whether the process of a run without an end
// is known to have exited, such as [checkpoint.Store.Abandoned]. It is nil if that cannot
// be known.
func Follow(run checkpoint.Run, dead func(host string, pid int) bool) *Follower {
	s := newState(run.ID)
	s.Started, s.Seen = run.Started, run.Started
	return &Follower{dead: dead, path: filepath.Join(run.Dir, "events.ndjson"), State: s}
}

// Poll reads what was written since the last call. A run that has no events yet
// is no error.
func (f *Follower) Poll() error {
	if err := f.read(); err != nil {
		return err
	}

	s := f.State
	if !s.Ended && f.dead != nil && s.PID > 0 && f.dead(s.Host, s.PID) {
		// What it wrote before it ended counts.
		if err := f.read(); err != nil {
			return err
		}
		if !s.Ended && !s.Gone {
			s.Gone = true
			s.Version++
		}
	}

	return nil
}

func (f *Follower) read() error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("events of run %s: %w", f.State.Run, err)
	}
	defer file.Close()

	if info, err := file.Stat(); err == nil && info.Size() < f.offset {
		return fmt.Errorf("events of run %s became shorter: another program changed the state folder", f.State.Run)
	}

	if _, err := file.Seek(f.offset, io.SeekStart); err != nil {
		return fmt.Errorf("events of run %s: %w", f.State.Run, err)
	}

	for lines := bufio.NewReaderSize(file, 1<<18); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break // the line is not whole yet, or a full disk took its end
		}

		if err != nil {
			return fmt.Errorf("events of run %s: %w", f.State.Run, err)
		}

		f.offset += int64(len(line))
		f.take(line)
	}

	slices.SortStableFunc(f.State.Failures, func(a, b *Failure) int { return cmp.Compare(b.Count, a.Count) })
	return nil
}

// event is a line of events.ndjson, as engine/run and the stages write it.
type event struct {
	At       time.Time       `json:"@timestamp"`
	Level    string          `json:"@level"`
	Text     string          `json:"@message"`
	Type     string          `json:"type"`
	Stage    string          `json:"stage"`
	Kind     string          `json:"kind"`
	Plan     string          `json:"plan"`
	Host     string          `json:"host"`
	PID      int             `json:"pid"`
	Graph    []node          `json:"graph"`
	Reason   string          `json:"reason"`
	Status   string          `json:"status"`
	Reused   bool            `json:"reused"`
	Seconds  float64         `json:"seconds"`
	Message  string          `json:"message"`
	Counts   stage.Counts    `json:"counts"`
	ExitCode int             `json:"exit_code"`
	Done     int             `json:"done"`
	Failed   int             `json:"failed"`
	Skipped  int             `json:"skipped"`
	Total    int             `json:"total"`
	Before   int             `json:"before"`
	Op       string          `json:"op"`
	Class    string          `json:"class"`
	Params   json.RawMessage `json:"params"`
	Worker   string          `json:"worker"`
	Device   string          `json:"device_uuid"`
	Cases    int             `json:"cases"`
	Metrics  map[string]any  `json:"metrics"`
}

type node struct {
	Address  string   `json:"address"`
	Kind     string   `json:"kind"`
	Measures bool     `json:"measures"`
	After    []string `json:"after"`
	Action   string   `json:"action"`
	Cases    int      `json:"cases"`
}

// show replaces control characters in texts from plans, workers and hosts, because in a
// browser hidden characters can reorder a line.
func (e *event) show() {
	for _, text := range []*string{&e.Text, &e.Stage, &e.Plan, &e.Host, &e.Reason, &e.Message, &e.Op, &e.Class,
		&e.Worker, &e.Device} {
		*text = textutil.Visible(*text)
	}

	for i := range e.Graph {
		n := &e.Graph[i]
		n.Address = textutil.Visible(n.Address)
		for j := range n.After {
			n.After[j] = textutil.Visible(n.After[j])
		}
	}
}

func (f *Follower) take(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		return // a line that a kill cut short
	}

	e.show()
	s := f.State
	s.Version++

	if e.At.After(s.Seen) {
		s.Seen = e.At
	}

	if !s.Ended {
		s.Seconds = s.Seen.Sub(s.Started).Seconds()
	}

	switch e.Type {
	case "run_start":
		s.Plan, s.Host, s.PID, s.Started = e.Plan, e.Host, e.PID, e.At
		for _, n := range e.Graph {
			st := s.stage(n.Address, n.Kind)
			st.Action, st.Total, st.Measures = n.Action, n.Cases, n.Measures
			if n.After != nil {
				st.After = n.After
			}
		}

	case "run_end":
		code := e.ExitCode
		s.Ended, s.ExitCode, s.Seconds = true, &code, e.Seconds

	case "stage_start":
		st := s.stage(e.Stage, e.Kind)
		at := e.At
		st.Status, st.Reason, st.Started = Running, e.Reason, &at

	case "stage_progress":
		s.stage(e.Stage, e.Kind).progress(e.At, e.Done, e.Failed, e.Skipped, e.Total, e.Before)

	case "stage_end":
		st := s.stage(e.Stage, e.Kind)
		seconds := e.Seconds
		st.Status, st.Message, st.Reused, st.Counts, st.Seconds, st.Left = e.Status, e.Message, e.Reused, e.Counts,
			&seconds, nil

		// Other stages count cases, too; only those that measure some count here.
		if n := e.Counts; n.Planned > 0 && st.Total > 0 {
			st.Done, st.Failed, st.Skipped, st.Total = n.Measured+n.Reused, n.Failed, n.Skipped, n.Planned
		}

	case "alive":
		for _, st := range s.Stages {
			if st.Status == Running {
				st.estimate(e.At)
			}
		}

	case "case_failed":
		s.failed(e)

	case "sample":
		s.sampled(e)

	case "message", "diagnostic":
		if e.Level == "warn" || e.Level == "error" {
			s.Messages = append(s.Messages, Message{e.At, e.Stage, e.Level, e.Text})
			if len(s.Messages) > maxMessages {
				s.Messages = s.Messages[len(s.Messages)-maxMessages:]
			}
		}
	}
}

// numbers differ between failures that are alike.
var numbers = regexp.MustCompile(`0x[0-9a-fA-F]+|\d+`)

func (s *State) failed(e event) {
	text, _, _ := strings.Cut(strings.TrimSpace(e.Message), "\n")
	key := e.Stage + "\x00" + e.Class + "\x00" + numbers.ReplaceAllString(text, "#")
	g := s.byGroup[key]
	if g == nil {
		if len(s.Failures) >= maxGroups {
			key, text, e.Class = e.Stage+"\x00", "messages of other kinds", "several"
			g = s.byGroup[key]
		}

		if g == nil {
			g = &Failure{Stage: e.Stage, Op: e.Op, Class: e.Class, Message: text}
			s.byGroup[key] = g
			s.Failures = append(s.Failures, g)
		}
	}

	g.Count++
	g.Example, g.Last = textutil.Visible(string(e.Params)), e.At
}

func (s *State) sampled(e event) {
	key := e.Stage + "\x00" + e.Worker
	w := s.byWorker[key]
	if w == nil {
		w = &Worker{Stage: e.Stage, Name: e.Worker, Samples: []Sample{}}
		s.byWorker[key] = w
		s.Workers = append(s.Workers, w)
	}

	if n := len(w.Samples); n > 0 && e.Cases > w.Cases {
		if span := e.At.Sub(w.Samples[n-1].At).Seconds(); span > 0 {
			rate := float64(e.Cases-w.Cases) / span
			w.Rate = &rate
		}
	}

	w.Device, w.Cases = e.Device, e.Cases
	sample := Sample{At: e.At, Cases: e.Cases, Params: textutil.Visible(string(e.Params)), Metrics: map[string]float64{}}
	for name, v := range e.Metrics {
		if x, ok := v.(float64); ok {
			sample.Metrics[name] = x
		}
	}

	if w.Samples = append(w.Samples, sample); len(w.Samples) > maxSamples {
		w.Samples = thin(w.Samples)
	}
}
