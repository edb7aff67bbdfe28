package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// heartbeat is how often a running stage prints a line if stdout is not a terminal.
const heartbeat = 10 * time.Second

// lineView prints lines for a log file.
type lineView struct {
	app   *app
	p     *plan.Plan
	apply string // command that applies the plan again

	mu      sync.Mutex
	running map[string]*lineState
	now     func() time.Time
}

type lineState struct {
	started, said time.Time
	pace          pace
}

// pace is the progress of a stage and the time of its last result.
type pace struct {
	last  stage.Progress
	moved time.Time
}

func (p *pace) update(now time.Time, last stage.Progress) {
	if p.moved.IsZero() || casesEnded(last) != casesEnded(p.last) {
		p.moved = now
	}
	p.last = last
}

// casesEnded returns the number of cases with a result.
func casesEnded(p stage.Progress) int { return p.Done + p.Failed + p.Skipped }

func newLineView(a *app) *lineView {
	return &lineView{app: a, running: map[string]*lineState{}, now: time.Now}
}

// RunStart implements run.View.
func (v *lineView) RunStart(p *plan.Plan, runID string) {
	v.p = p
	v.apply = v.app.applyCommand(p)
	v.app.printf("%s\n", plan.Summarize(p).Line())
	v.app.printf("Run %s\n", runID)
}

// StageStart implements run.View.
func (v *lineView) StageStart(address, kind, reason string) {
	v.mu.Lock()
	now := v.now()
	v.running[address] = &lineState{started: now, said: now}
	v.mu.Unlock()
	if s := v.p.Stage(address); s != nil && s.Instance.Kind.Class.OwnsDevices() {
		v.app.printf("%s: starts (%s)\n", address, reason)
	}
}

// Progress implements run.View.
func (v *lineView) Progress(address string, p stage.Progress) {
	v.mu.Lock()
	if st := v.running[address]; st != nil {
		st.pace.update(v.now(), p)
	}
	v.mu.Unlock()
	v.heartbeat(address, func(st *lineState, now time.Time) string { return st.pace.text(st.started, now) })
}

// heartbeat prints the text of a running stage if nothing was printed of it for a heartbeat.
func (v *lineView) heartbeat(address string, text func(*lineState, time.Time) string) {
	v.mu.Lock()
	st, now, line := v.running[address], v.now(), ""
	due := st != nil && now.Sub(st.said) >= heartbeat
	if due {
		st.said, line = now, text(st, now)
	}

	v.mu.Unlock()
	if due {
		v.app.printf("%s: %s\n", address, line)
	}
}

// text returns the progress of a stage: cases, rate, failures and remaining time. The last cases
// are measured in several visits, during which no case ends. The rate then predicts nothing, and
// the number of these cases replaces the remaining time.
func (c *pace) text(started, now time.Time) string {
	p, elapsed := c.last, now.Sub(started)
	if p.Total == 0 {
		return "still at work, " + textutil.Duration(elapsed.Seconds())
	}

	ended := casesEnded(p)
	text := fmt.Sprintf("%s of %s", textutil.Count(ended), textutil.Count(p.Total))
	if p.Failed > 0 {
		text += fmt.Sprintf(", %s failed", textutil.Count(p.Failed))
	}

	s := elapsed.Seconds()
	switch {
	case ended <= p.Before:
		text += ", " + textutil.Duration(s)
	case s > 0:
		rate := float64(ended-p.Before) / s
		text += ", " + rateText(rate)
		left := float64(p.Total-ended) / rate
		switch quiet := now.Sub(c.moved).Seconds(); {
		case ended == p.Total:
		case quiet > left && quiet > 1:
			text += fmt.Sprintf(", finishing the last %d", p.Total-ended)
		default:
			text += fmt.Sprintf(", %s left", textutil.Duration(left))
		}
	}

	return text
}

// rateText formats cases per second, or per minute if the rate is low.
func rateText(rate float64) string {
	if rate >= 1 {
		return fmt.Sprintf("%.1f/s", rate)
	}
	return fmt.Sprintf("%.1f/min", 60*rate)
}

// Message implements run.View.
func (v *lineView) Message(address, level, text string) {
	if s := v.p.Stage(address); s != nil && (s.Instance.Kind.Class == stage.Check ||
		s.Instance.Kind.Class == stage.Guard) {
		return // its checks are listed when it ends
	}

	switch level {
	case "warn", "error":
		v.app.printf("%s: %s: %s\n", address, level, v.app.here(quoted(text)))
	case stage.MessageShow:
		v.app.printf("%s\n", v.app.here(text))
	case stage.MessageStatus:
		line, _, _ := strings.Cut(text, "\n") // the following table is for terminals only
		v.heartbeat(address, func(*lineState, time.Time) string { return line })
	}
}

// StageEnd implements run.View.
func (v *lineView) StageEnd(r *run.StageResult) {
	v.mu.Lock()
	delete(v.running, r.Address)
	v.mu.Unlock()
	if r.Guarded || (r.Reused && r.Status == stage.StatusOK) {
		return
	}

	checks := strings.ReplaceAll(failedChecks(r), applyPlan, v.apply)
	if r.Is.Class == stage.Source && r.Status == stage.StatusOK && checks == "" || r.Status == stage.StatusSkipped {
		return
	}

	v.app.printf("%s", v.app.here(view("outcome", r))+checks)
}

// manyFiles is the number of files of a stage above which they are counted by folder.
const manyFiles = 4

// files lists the files of a stage with their digests, or counts them by folder if they are many.
func files(artifacts []stage.Artifact) string {
	text := ""
	if len(artifacts) <= manyFiles {
		for _, f := range artifacts {
			text += fmt.Sprintf(", %s %s", shown(f.Path), plan.ShortDigest(f.Digest))
			if f.Rows > 0 {
				text += " " + textutil.Counted(f.Rows, "row")
			}
		}
		return text
	}

	var paths []string
	for _, f := range artifacts {
		paths = append(paths, filepath.ToSlash(f.Path))
	}
	for _, f := range textutil.Folders(paths) {
		text += fmt.Sprintf(", %s in %s", textutil.Counted(f.Count, "file"), shown(f.Path))
	}
	return text
}

// quoted indents the continuation lines of a text. The text may come from workers, and CI systems
// interpret lines that start with "::" as commands.
func quoted(text string) string { return strings.ReplaceAll(text, "\n", "\n    | ") }

func statusWord(s stage.Status) string {
	switch s {
	case stage.StatusGateFailed:
		return "gate failed"
	case stage.StatusPreflight:
		return "preflight failed"
	case stage.StatusNeeds:
		return "needs another environment"
	}
	return string(s)
}

// failedChecks lists the checks that did not pass, with their position and the suggested fix.
func failedChecks(r *run.StageResult) string {
	if r.Outcome == nil {
		return ""
	}
	return view("checks", r.Outcome.Checks)
}

// Diagnostics implements run.View.
func (v *lineView) Diagnostics(diags hcl.Diagnostics) {
	if err := v.app.report(v.p.Config, diags); err != nil {
		return // the diagnostics were printed, and the stage's status contains the failure
	}
}

// RunEnd implements run.View.
func (v *lineView) RunEnd(r *run.Applied) { v.app.viewResult(v.p, r) }
