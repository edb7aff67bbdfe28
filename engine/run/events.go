package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

// View shows a run. Its methods are not called concurrently.
type View interface {
	RunStart(p *plan.Plan, runID string)
	StageStart(address, kind, reason string)
	// Progress is called often, and repeatedly with the same values. Total is 0 until the stage knows it.
	Progress(address string, p stage.Progress)
	Message(address, level, text string)
	StageEnd(r *StageResult)
	Diagnostics(diags hcl.Diagnostics)
	RunEnd(r *Applied)
}

// events passes the events of a run to the view and writes them as NDJSON to the run folder.
type events struct {
	view  View      // may be nil
	copy  io.Writer // gets the lines of the file as well; may be nil
	runID string
	plan  *plan.Plan // set by runStart

	mu      sync.Mutex
	file    eventFile
	path    string
	size    int64 // of the complete lines in the file
	err     error // first error of a write
	last    map[string]time.Time
	running map[string]stage.Progress // as last reported
	ended   chan struct{}             // closed when the run has ended
}

// eventFile is the file that events are appended to.
type eventFile interface {
	io.WriteCloser
	Truncate(size int64) error
}

// pulse is the interval at which the progress of running stages is shown again, so that a user sees that the run
// continues.
const pulse = 5 * time.Second

// lifeEvery is the number of pulses between heartbeats in the file. Without them, a reader on another host cannot
// distinguish a quiet run from a dead one.
const lifeEvery = 6

// graphNode is a stage of the plan in the first event.
type graphNode struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	// Measures is set for stages that measure cases.
	Measures bool     `json:"measures,omitempty"`
	After    []string `json:"after"`
	Action   string   `json:"action"`
	Cases    int      `json:"cases,omitempty"`
}

func graphOf(p *plan.Plan) []graphNode {
	var out []graphNode
	for _, s := range p.Stages {
		n := graphNode{Address: s.Address(), Kind: s.Instance.Kind.Name, Measures: s.Class() == stage.Measure,
			After: p.Graph.Deps(s.Address()), Action: string(s.Action)}
		if s.Plan != nil && s.Plan.Cases != nil {
			n.Cases = s.Plan.Cases.Planned
		}
		out = append(out, n)
	}
	return out
}

func newEvents(opts Options) (*events, error) {
	path := filepath.Join(opts.Run.Dir, "events.ndjson")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fileutil.Explain("write", path, err)
	}
	return &events{view: opts.View, copy: opts.Events, runID: opts.Run.ID, file: f, path: path,
		last: map[string]time.Time{}, running: map[string]stage.Progress{}, ended: make(chan struct{})}, nil
}

// show calls f with the view, if there is one.
func (e *events) show(f func(View)) {
	if e.view != nil {
		f(e.view)
	}
}

// write appends one event. The envelope has the names of Terraform's machine-readable output, which log tools support.
func (e *events) write(level, typ, message, address string, fields map[string]any) {
	m := map[string]any{"@timestamp": time.Now().UTC().Format(time.RFC3339Nano), "@level": level,
		"@message": message, "type": typ, "run": e.runID}
	if address != "" {
		m["stage"] = address
	}
	maps.Copy(m, fields)

	line, err := json.Marshal(m)
	if err != nil {
		line, _ = json.Marshal(map[string]any{"@level": "error", "type": "log",
			"@message": fmt.Sprintf("event %s cannot be written: %v", typ, err)})
	}

	line = append(line, '\n')
	e.append(line)
	if e.copy != nil {
		e.copy.Write(line) // a reader that has gone does not end the run
	}
}

// append writes a complete line or nothing. If the disk is full, a partial line would make the next one unreadable,
// which may fit again.
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
	host, _ := os.Hostname() // "" if it is unknown
	e.write("info", "run_start", fmt.Sprintf("run %s: %s", e.runID, textutil.Counted(len(p.Stages), "stage")), "",
		map[string]any{"stages": len(p.Stages), "plan": p.Config.Path, "out_dir": p.Options.OutDir,
			"inputs": p.Config.Inputs(), "options": p.Options.Stage,
			"graph": graphOf(p), "host": host, "pid": os.Getpid(),
			"whole": len(p.Options.Targets)+len(p.Options.Excludes) == 0})
	e.show(func(v View) { v.RunStart(p, e.runID) })
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
			if p, ok := e.running[s.Address()]; ok {
				e.show(func(v View) { v.Progress(s.Address(), p) })
			}
		}
		e.mu.Unlock()
	}
}

func (e *events) stageStart(s *plan.Stage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write("info", "stage_start", s.Address()+" starts: "+s.Reason, s.Address(),
		map[string]any{"kind": s.Instance.Kind.Name, "class": s.Class(), "reason": s.Reason})
	e.running[s.Address()] = stage.Progress{}
	e.show(func(v View) { v.StageStart(s.Address(), s.Instance.Kind.Name, s.Reason) })
}

func (e *events) stageEnd(r *StageResult) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, r.Address)
	level := "info"
	if bad(r.Status) {
		level = "error"
	}

	fields := map[string]any{"kind": r.Kind, "class": r.Is.Class, "status": r.Status, "reused": r.Reused,
		"seconds": r.Seconds, "message": r.Message}
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
	e.show(func(v View) { v.StageEnd(r) })
}

// endText describes the end of a stage. Some messages begin with the status.
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

// runEnd ends the events. If one of them could not be written, this is an error of the run.
func (e *events) runEnd(r *Applied) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.ended)
	diags := r.Diags
	if e.err != nil {
		r.Diags = append(diags, e.incomplete())
	}
	e.write("info", "run_end", fmt.Sprintf("run %s ended with exit code %d", r.RunID, r.ExitCode()), "",
		map[string]any{"exit_code": r.ExitCode(), "seconds": r.Seconds})
	if e.err = errors.Join(e.err, e.file.Close()); e.err != nil {
		r.Diags = append(diags, e.incomplete())
	}
	e.show(func(v View) { v.RunEnd(r) })
}

func (e *events) diagnostics(diags hcl.Diagnostics) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range diags {
		e.write("error", "diagnostic", d.Error(), "", nil)
	}
	e.show(func(v View) { v.Diagnostics(diags) })
}

// Progress implements stage.Events. It writes at most one line per second and stage to the file.
func (e *events) Progress(address string, p stage.Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[address] = p
	if now := time.Now(); now.Sub(e.last[address]) >= time.Second || p.Done+p.Failed+p.Skipped == p.Total {
		e.last[address] = now
		e.write("info", "stage_progress", fmt.Sprintf("%s: %d of %d", address, p.Done, p.Total), address,
			map[string]any{"done": p.Done, "failed": p.Failed, "skipped": p.Skipped, "total": p.Total, "before": p.Before})
	}
	e.show(func(v View) { v.Progress(address, p) })
}

// Message implements stage.Events.
func (e *events) Message(address, level, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write(level, "message", text, address, nil)
	e.show(func(v View) { v.Message(address, level, text) })
}

// Emit implements stage.Events.
func (e *events) Emit(address, typ string, fields map[string]any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write("info", typ, typ, address, fields)
}

func (e *events) incomplete() *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Events are missing",
		Detail: fileutil.Explain("write", e.path, e.err).Error() + "."}
}
