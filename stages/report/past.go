package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/stage"
)

// Past is a run as its events describe it.
type Past struct {
	Run      checkpoint.Run
	Plan     string
	OutDir   string        // "" if the events do not name it
	Inputs   config.Inputs // of the plan
	Options  stage.Options
	Started  time.Time
	Seconds  float64
	ExitCode int
	// Ended is false for a run that goes on, or was killed.
	Ended bool
	// Statement is the statement of the run's first report stage. It is empty if none
	// ran.
	Statement Statement
	// Whole is true for a run of all stages of its plan. It is false if --target or
	// --exclude selected some, and if it is unknown.
	Whole  bool
	Stages []stage.Finished
	// Open are the stages that had begun and not ended, as interrupted ones.
	Open []stage.Finished

	at map[string]time.Time // when stages ended, by address
}

// FindRun returns the run called id, or the newest for "" and "latest". A unique
// beginning of an id is enough.
func FindRun(store *checkpoint.Store, id string) (*checkpoint.Run, error) {
	if id == "" || id == "latest" {
		r, err := store.LatestRun()
		if errors.Is(err, checkpoint.ErrMissing) {
			return nil, fmt.Errorf("the state folder %s has no run: apply a plan first, or name the folder with --state-dir",
				store.Dir)
		}
		return r, err
	}

	all, err := store.Runs()
	if err != nil {
		return nil, err
	}

	var found []checkpoint.Run
	for _, r := range all {
		if r.ID == id {
			return &r, nil
		}
		if strings.HasPrefix(r.ID, id) {
			found = append(found, r)
		}
	}

	switch len(found) {
	case 1:
		return &found[0], nil
	case 0:
		return nil, fmt.Errorf("there is no run %q in %s; aicplan report --list shows them", id, store.Dir)
	}

	return nil, fmt.Errorf("%q begins %d runs, %s and %s among them: give more of the id", id, len(found),
		found[0].ID, found[1].ID)
}

// Idle reports whether the run had nothing to do: it ended, and every stage reused the
// results of earlier runs.
func (p *Past) Idle() bool {
	if !p.Ended || p.ExitCode != 0 || len(p.Stages) == 0 {
		return false
	}

	for _, s := range p.Stages {
		// What costs nothing to run again is never reused.
		if s.Class != stage.Guard && s.Class != stage.Source && !s.Reused {
			return false
		}
	}

	return true
}

// LastActive returns the newest run that did something, of the plan of the newest run
// of all, and how many runs since then had nothing to do. Where no run is left that did
// something, it is the newest.
func LastActive(store *checkpoint.Store) (p *Past, idle []string, err error) {
	all, err := store.Runs()
	if err != nil {
		return nil, nil, err
	}

	var newest *Past
	for _, r := range slices.Backward(all) {
		past, err := ReadRun(r)
		if err != nil {
			if newest == nil {
				return nil, nil, err
			}
			continue // an older one that ended before it began
		}

		if newest == nil {
			newest = past
		}

		if past.Plan != newest.Plan {
			continue
		}

		if !past.Idle() {
			return past, idle, nil
		}

		idle = append(idle, r.ID)
	}

	if newest == nil {
		_, err := FindRun(store, "")
		return nil, nil, err
	}

	return newest, nil, nil
}

// event is a line of events.ndjson, as engine/run writes it.
type event struct {
	At        time.Time           `json:"@timestamp"`
	Type      string              `json:"type"`
	Stage     string              `json:"stage"`
	Kind      string              `json:"kind"`
	Class     stage.Class         `json:"class"`
	Plan      string              `json:"plan"`
	OutDir    string              `json:"out_dir"`
	Inputs    config.Inputs       `json:"inputs"`
	Options   stage.Options       `json:"options"`
	Whole     bool                `json:"whole"`
	Status    stage.Status        `json:"status"`
	Reused    bool                `json:"reused"`
	Seconds   float64             `json:"seconds"`
	Message   string              `json:"message"`
	Counts    stage.Counts        `json:"counts"`
	Checks    []stage.CheckResult `json:"checks"`
	Artifacts []stage.Artifact    `json:"artifacts"`
	After     []string            `json:"after"`
	Waterfall *stage.Waterfall    `json:"waterfall"`
	ExitCode  int                 `json:"exit_code"`
	Statement Statement           `json:"statement"`
	Done      int                 `json:"done"`
	Total     int                 `json:"total"`
}

// relevant reports whether a report needs a line. Most lines are failures, workers and
// logs, which it does not need.
func relevant(line []byte) bool {
	for _, what := range []string{`"type":"run_`, `"type":"stage_`, `"type":"` + statementEvent + `"`} {
		if bytes.Contains(line, []byte(what)) {
			return true
		}
	}
	return false
}

// ReadRun reads the events of a run. A last line that was cut short, as a kill
// leaves it, is passed over.
func ReadRun(run checkpoint.Run) (*Past, error) {
	path := filepath.Join(run.Dir, "events.ndjson")
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("run %s has no events: it ended before it began", run.ID)
	}

	if err != nil {
		return nil, fmt.Errorf("events of run %s: %w", run.ID, err)
	}
	defer f.Close()
	p := &Past{Run: run, Started: run.Started, at: map[string]time.Time{}}
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 1<<16), 1<<28)

	var bad error
	for n := 1; sc.Scan(); n++ {
		if bad != nil {
			return nil, bad
		}

		line := sc.Bytes()
		if !relevant(line) {
			continue
		}

		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			bad = fmt.Errorf("%s:%d: %w", path, n, err)
			continue
		}

		p.take(e)
	}

	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("events of run %s: %w", run.ID, err)
	}

	return p, nil
}

func (p *Past) take(e event) {
	if !p.Ended && e.At.After(p.Started) {
		p.Seconds = e.At.Sub(p.Started).Seconds()
	}

	switch e.Type {
	case "run_start":
		p.Plan, p.Options, p.Started, p.Seconds, p.Whole = e.Plan, e.Options, e.At, 0, e.Whole
		p.OutDir, p.Inputs = e.OutDir, e.Inputs

	case "run_end":
		p.Seconds, p.ExitCode, p.Ended = e.Seconds, e.ExitCode, true

	case statementEvent:
		if p.Statement.Inputs == nil {
			p.Statement = e.Statement
		}

	case "stage_start":
		p.Open = append(p.Open, stage.Finished{Address: e.Stage, Kind: e.Kind, Class: e.Class, Outcome: &stage.Outcome{
			Status: stage.StatusInterrupted, Message: "it had not ended; what was stored until then is kept"}})

	case "stage_progress":
		for _, f := range p.Open {
			if f.Address == e.Stage && e.Total > 0 {
				f.Outcome.Message = fmt.Sprintf("it had not ended; %d of %d cases had ended by its last event, and what was "+
					"stored is kept", e.Done, e.Total)
			}
		}

	case "stage_end":
		p.Open = slices.DeleteFunc(p.Open, func(f stage.Finished) bool { return f.Address == e.Stage })
		p.at[e.Stage] = e.At
		p.Stages = append(p.Stages, stage.Finished{
			Address: e.Stage, Kind: e.Kind, Class: e.Class, Reused: e.Reused, Seconds: e.Seconds, After: e.After,
			Waterfall: e.Waterfall,
			Outcome: &stage.Outcome{Status: e.Status, Message: e.Message, Counts: e.Counts, Checks: e.Checks,
				Artifacts: e.Artifacts},
		})
	}
}

// Removed marks the records of stages that the newest complete run of their plan did not
// contain. Their data is kept, because the stage may have been renamed, but it is not
// part of reports.
func Removed(store *checkpoint.Store, records []*checkpoint.StageRecord) (map[string]bool, error) {
	runs, err := store.Runs()
	if err != nil {
		return nil, err
	}

	stages := map[string]map[string]bool{} // by plan
	for i := len(runs) - 1; i >= 0; i-- {
		past, err := ReadRun(runs[i])
		if err != nil || !past.Whole || !past.Ended {
			continue
		}

		name := checkpoint.PlanName(past.Plan)
		if stages[name] != nil {
			continue
		}

		stages[name] = map[string]bool{}
		for _, s := range past.Stages {
			stages[name][s.Address] = true
		}
	}

	out := map[string]bool{}
	for _, r := range records {
		if known := stages[r.Plan]; known != nil && !known[r.Address] {
			out[r.Address] = true
		}
	}

	return out, nil
}

// statementEvent is the type of the event by which a report stage leaves its
// Statement, in the field "statement".
const statementEvent = "report"

// Statement is the text that a report's author adds to the data.
type Statement struct {
	Title string `json:"title,omitempty"`
	// References are the addresses of stages to compare with.
	References []string `json:"references,omitempty"`
	// Inputs are the addresses of the stages that the report describes.
	Inputs []string `json:"inputs,omitempty"`
}
