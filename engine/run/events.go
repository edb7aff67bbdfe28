package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
)

// View shows a run to somebody. Its methods are called one at a time.
type View interface {
	RunStart(p *plan.Plan, runID string)
	StageStart(address, kind, reason string)
	// Progress comes often; while nothing happens it repeats itself, and has no
	// total before the stage knows one.
	Progress(address string, p stage.Progress)
	Message(address, level, text string)
	StageEnd(r *StageResult)
	Diagnostics(diags hcl.Diagnostics)
	RunEnd(r *Applied)
	// Event is every event as it goes to the run's file, one JSON object.
	Event(line []byte)
}

// events fans out what happens: to the views, and as NDJSON to the run folder.
type events struct {
	log   hclog.Logger
	views []View
	runID string
	plan  *plan.Plan // set by runStart

	mu      sync.Mutex
	file    eventFile
	size    int64 // of the file, in whole lines
	err     error // the first failure to write
	last    map[string]time.Time
	running map[string]stage.Progress // as last reported
	ended   chan struct{}             // closed when the run has
}

// eventFile is the file that events are appended to.
type eventFile interface {
	io.WriteCloser
	Truncate(size int64) error
}

// pulse is how often a running stage's progress is shown again when nothing
// happens: whoever looks must see that the run lives.
const pulse = 5 * time.Second

// lifeEvery is how many pulses apart the file gets a sign of life: who follows it
// from another host has nothing else to tell a silent run from a dead one.
const lifeEvery = 6

// graphNode is a stage of the plan as the first event has it.
type graphNode struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	// Measures is true of stages that work through cases.
	Measures bool     `json:"measures,omitempty"`
	After    []string `json:"after"`
	Action   string   `json:"action"`
	Cases    int      `json:"cases,omitempty"`
}

func graphOf(p *plan.Plan) []graphNode {
	var out []graphNode
	for _, s := range p.Stages {
		n := graphNode{Address: s.Address(), Kind: s.Instance.Kind.Name, Measures: s.Instance.Kind.Class == stage.Measure, After: p.Graph.Deps(s.Address()), Action: string(s.Action)}
		if s.Plan != nil && s.Plan.Cases != nil {
			n.Cases = s.Plan.Cases.Planned
		}
		out = append(out, n)
	}
	return out
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

func newEvents(run *checkpoint.Run, views []View, log hclog.Logger) (*events, error) {
	path := filepath.Join(run.Dir, "events.ndjson")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot write the run's events: %w", err)
	}
	return &events{log: log, views: views, runID: run.ID, file: f, last: map[string]time.Time{}, running: map[string]stage.Progress{}, ended: make(chan struct{})}, nil
}

// write appends one event. The envelope's names are those of Terraform's
// machine-readable output, which log tools know already.
func (e *events) write(level, typ, message, address string, fields map[string]any) {
	m := map[string]any{"@timestamp": time.Now().UTC().Format(time.RFC3339Nano), "@level": level, "@message": message, "type": typ, "run": e.runID}
	if address != "" {
		m["stage"] = address
	}
	for k, v := range fields {
		m[k] = v
	}
	line, err := json.Marshal(m)
	if err != nil {
		line, _ = json.Marshal(map[string]any{"@level": "error", "@message": fmt.Sprintf("event %s cannot be written: %v", typ, err), "type": "log"})
	}
	e.append(append(line, '\n'))
	for _, v := range e.views {
		v.Event(line)
	}
}

// append writes a line, or nothing: the part of one that a full disk takes would make
// the next one unreadable, too. That may find room again, such as the end of the run.
func (e *events) append(line []byte) {
	n, err := e.file.Write(line)
	if err == nil {
		e.size += int64(n)
		return
	}
	if n > 0 {
		err = errors.Join(err, e.file.Truncate(e.size))
	}
	if e.err == nil {
		e.err = err
	}
}

func (e *events) runStart(p *plan.Plan) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.plan = p
	e.write("info", "run_start", fmt.Sprintf("run %s: %d stages", e.runID, len(p.Stages)), "",
		map[string]any{"stages": len(p.Stages), "plan": p.Config.Path, "options": p.Options.Stage, "graph": graphOf(p), "host": hostname(), "pid": os.Getpid(),
			"whole": len(p.Options.Targets)+len(p.Options.Excludes) == 0})
	for _, v := range e.views {
		v.RunStart(p, e.runID)
	}
	go e.beat()
}

// beat shows the progress of running stages again until the run ends.
func (e *events) beat() {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-e.ended:
			return
		case <-tick.C:
		}
		e.mu.Lock()
		if n%lifeEvery == 0 {
			e.write("debug", "alive", "the run goes on", "", nil)
		}
		for _, s := range e.plan.Stages {
			p, ok := e.running[s.Address()]
			if !ok {
				continue
			}
			for _, v := range e.views {
				v.Progress(s.Address(), p)
			}
		}
		e.mu.Unlock()
	}
}

func (e *events) stageStart(s *plan.Stage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write("info", "stage_start", s.Address()+" starts: "+s.Reason, s.Address(), map[string]any{"kind": s.Instance.Kind.Name, "class": s.Instance.Kind.Class, "reason": s.Reason})
	e.running[s.Address()] = stage.Progress{}
	for _, v := range e.views {
		v.StageStart(s.Address(), s.Instance.Kind.Name, s.Reason)
	}
}

func (e *events) stageEnd(r *StageResult) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, r.Address)
	level := "info"
	if bad(r.Status) {
		level = "error"
	}
	fields := map[string]any{"kind": r.Kind, "class": r.Is.Class, "status": r.Status, "reused": r.Reused, "seconds": r.Seconds, "message": r.Message}
	if e.plan != nil {
		fields["after"] = e.plan.Graph.Deps(r.Address)
		if s := e.plan.Stage(r.Address); s != nil && s.Plan != nil && s.Plan.Waterfall != nil {
			fields["waterfall"] = s.Plan.Waterfall
		}
	}
	if r.Outcome != nil {
		fields["counts"] = r.Outcome.Counts
		if len(r.Outcome.Checks) > 0 {
			fields["checks"] = r.Outcome.Checks
		}
		if len(r.Outcome.Artifacts) > 0 {
			fields["artifacts"] = r.Outcome.Artifacts
		}
	}
	e.write(level, "stage_end", endText(r), r.Address, fields)
	for _, v := range e.views {
		v.StageEnd(r)
	}
}

// endText says how a stage ended. Messages of some statuses begin with its word.
func endText(r *StageResult) string {
	status := string(r.Status)
	switch {
	case r.Message == "":
		return r.Address + ": " + status
	case strings.HasPrefix(r.Message, status+" "):
		return r.Address + ": " + r.Message
	}
	return r.Address + ": " + status + ": " + r.Message
}

func (e *events) runEnd(r *Applied) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.ended)
	e.write("info", "run_end", fmt.Sprintf("run %s ended with exit code %d", r.RunID, r.ExitCode()), "", map[string]any{"exit_code": r.ExitCode(), "seconds": r.Seconds})
	for _, v := range e.views {
		v.RunEnd(r)
	}
}

func (e *events) diagnostics(diags hcl.Diagnostics) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range diags {
		e.write("error", "diagnostic", d.Error(), "", nil)
	}
	for _, v := range e.views {
		v.Diagnostics(diags)
	}
}

// Progress implements stage.Events. The file gets one line a second and stage;
// the views draw at their own pace.
func (e *events) Progress(address string, p stage.Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[address] = p
	if now := time.Now(); now.Sub(e.last[address]) >= time.Second || p.Done+p.Failed+p.Skipped == p.Total {
		e.last[address] = now
		e.write("info", "stage_progress", fmt.Sprintf("%s: %d of %d", address, p.Done, p.Total), address,
			map[string]any{"done": p.Done, "failed": p.Failed, "skipped": p.Skipped, "total": p.Total, "before": p.Before})
	}
	for _, v := range e.views {
		v.Progress(address, p)
	}
}

// Message implements stage.Events.
func (e *events) Message(address, level, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write(level, "message", text, address, nil)
	for _, v := range e.views {
		v.Message(address, level, text)
	}
}

// Emit implements stage.Events.
func (e *events) Emit(address, typ string, fields map[string]any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write("info", typ, typ, address, fields)
}

func (e *events) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.file.Close()
	if e.err != nil {
		return fmt.Errorf("cannot write the run's events: %w", e.err)
	}
	return err
}
