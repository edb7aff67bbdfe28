package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// viewResult prints the table at the end of a run (stages, cases, failures, times), then the outputs and
// the result line.
func (a *app) viewResult(p *plan.Plan, r *run.Applied) {
	nothing := true
	for _, s := range r.Stages {
		if !s.Reused && s.Is.Class != stage.Source {
			nothing = false
		}
	}

	if !nothing {
		a.resultTable(r)
	}

	a.outputs(r.Outputs)
	fmt.Fprint(a.stdout, a.fold(resultLine(p, r, nothing)+"\n"))
}

func (a *app) resultTable(r *run.Applied) {
	hidden := func(s *run.StageResult) bool {
		return s.Is.Class == stage.Source && s.Status == stage.StatusOK || s.Guarded || s.Status == stage.StatusSkipped
	}
	status := func(s *run.StageResult) string {
		if s.Reused {
			return statusWord(s.Status) + " (reused)"
		}
		return statusWord(s.Status)
	}

	w, sw := 20, len("interrupted")
	for _, s := range r.Stages {
		if !hidden(s) {
			w, sw = max(w, utf8.RuneCountInString(s.Address)), max(sw, len(status(s)))
		}
	}

	numbers := len(" 00000000 000000 0000000 0000000")
	w = min(w, 80-sw-numbers-1)
	if n := a.screen(); n > 0 && n < w+1+sw+numbers {
		a.resultList(r, hidden, status)
		a.skipped(r)
		return
	}

	fmt.Fprintf(a.stdout, "\n%-*s %-*s %8s %6s %7s %7s\n", w, "stage", sw, "status", "rows", "failed", "skipped", "time")

	for _, s := range r.Stages {
		if hidden(s) {
			continue
		}
		rows, failed, skipped := "", "", ""
		if s.Outcome != nil {
			rows, failed, skipped = number(s.Outcome.Counts.Rows), number(s.Outcome.Counts.Failed),
				number(s.Outcome.Counts.Skipped)
		}
		fmt.Fprintf(a.stdout, "%-*s %-*s %8s %6s %7s %7s\n", w, textutil.ClipFront(s.Address, w), sw, status(s),
			rows, failed, skipped, fmt.Sprintf("%.1fs", s.Seconds))
	}

	a.skipped(r)
}

// resultList prints the table as a list, for narrow terminals.
func (a *app) resultList(r *run.Applied, hidden func(*run.StageResult) bool, status func(*run.StageResult) string) {
	fmt.Fprintln(a.stdout)
	for _, s := range r.Stages {
		if hidden(s) {
			continue
		}

		text := status(s)
		if s.Outcome != nil {
			c := s.Outcome.Counts
			if c.Rows > 0 {
				text += ", " + textutil.Counted(c.Rows, "row")
			}
			if c.Failed > 0 {
				text += ", " + textutil.Count(int64(c.Failed)) + " failed"
			}
			if c.Skipped > 0 {
				text += ", " + textutil.Count(int64(c.Skipped)) + " skipped"
			}
		}

		fmt.Fprint(a.stdout, a.fold(fmt.Sprintf("%s: %s, %.1fs\n", s.Address, text, s.Seconds)))
	}
}

// skipped prints the reasons for skipped stages, one line for each root cause.
func (a *app) skipped(r *run.Applied) {
	behind := map[string]int{}
	var order []string
	for _, s := range r.Stages {
		switch s.Status {
		case stage.StatusNeeds:
			// The stage's own line contained the suggested fix.
			why, _, _ := strings.Cut(s.Message, "; to do: ")
			fmt.Fprintf(a.stdout, "  %s: %s\n", s.Address, why)
		case stage.StatusSkipped:
			if behind[s.Blocker] == 0 {
				order = append(order, s.Blocker)
			}
			behind[s.Blocker]++
		}
	}

	for _, root := range order {
		fmt.Fprintf(a.stdout, "  %s skipped behind %s\n", textutil.Counted(behind[root], "stage"), root)
	}
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return textutil.Count(int64(n))
}

func (a *app) outputs(outs []config.Output) {
	if len(outs) == 0 {
		return
	}
	fmt.Fprintln(a.stdout, "\nOutputs:")
	for _, o := range outs {
		fmt.Fprint(a.stdout, a.fold(fmt.Sprintf("  %s = %s\n", o.Name, valueText(o.Value))))
	}
}

// outputJSON returns a value as JSON.
func outputJSON(v cty.Value) json.RawMessage {
	t := valueText(v)
	if json.Valid([]byte(t)) {
		return json.RawMessage(t)
	}
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // cannot happen for a string
	}
	return b
}

// resultLine returns the summary of a run in one line for grep.
func resultLine(p *plan.Plan, r *run.Applied, nothing bool) string {
	if nothing && r.ExitCode() == run.ExitOK {
		n := 0
		for _, s := range r.Stages {
			if s.Reused && !s.Guarded && p.Stage(s.Address).Instance.Kind.Class != stage.Guard {
				n++
			}
		}

		switch n {
		case 0:
			return fmt.Sprintf("Apply: nothing to do, no stage of the selection runs (%.1fs).", r.Seconds)
		case 1:
			return fmt.Sprintf("Apply: nothing to do, the one stage is as its checkpoint says (%.1fs).", r.Seconds)
		}

		return fmt.Sprintf("Apply: nothing to do, all %d stages are as their checkpoints say (%.1fs).", n, r.Seconds)
	}

	var c stage.Counts
	status := map[stage.Status]int{}
	for _, s := range r.Stages {
		status[s.Status]++
		if s.Outcome != nil && p.Stage(s.Address).Instance.Kind.Class.OwnsDevices() {
			o := s.Outcome.Counts
			if s.Reused {
				o.Reused, o.Measured = o.Reused+o.Measured, 0
			}
			c.Measured, c.Reused, c.Failed, c.Skipped = c.Measured+o.Measured, c.Reused+o.Reused, c.Failed+
				o.Failed, c.Skipped+o.Skipped
		}
	}

	text := fmt.Sprintf("Apply: %s measured, %s reused, %s failed, %s skipped", textutil.Count(int64(c.Measured)),
		textutil.Count(int64(c.Reused)), textutil.Count(int64(c.Failed)), textutil.Count(int64(c.Skipped)))

	var parts []string
	for _, s := range []stage.Status{stage.StatusFailed, stage.StatusPreflight, stage.StatusGateFailed,
		stage.StatusInterrupted, stage.StatusNeeds, stage.StatusSkipped} {
		if status[s] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", textutil.Counted(status[s], "stage"), statusWord(s)))
		}
	}

	if len(parts) > 0 {
		text += "; " + strings.Join(parts, ", ")
	}

	text += fmt.Sprintf("; %s, exit code %d.", textutil.Duration(r.Seconds), r.ExitCode())
	if status[stage.StatusInterrupted] > 0 {
		text += " The same command goes on from here."
	}

	return text
}
