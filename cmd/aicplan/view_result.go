package main

import (
	"fmt"
	"slices"
	"strings"

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
	a.printf("%s\n", resultLine(p, r, nothing))
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

	t := new(textutil.Table).Left("stage", "status").Right("rows", "failed", "skipped", "time")
	for _, s := range r.Stages {
		if hidden(s) {
			continue
		}

		var c stage.Counts
		if s.Outcome != nil {
			c = s.Outcome.Counts
		}
		t.Row(s.Address, status(s), number(c.Rows), number(c.Failed), number(c.Skipped), fmt.Sprintf("%.1fs", s.Seconds))
	}

	fmt.Fprintln(a.stdout)
	a.table(t)
	a.skipped(r)
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
			if s.Blocker == "" {
				a.printf("  %s: %s\n", s.Address, s.Message)
				continue
			}
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
	return textutil.Count(n)
}

func (a *app) outputs(outs []config.Output) {
	if len(outs) == 0 {
		return
	}
	fmt.Fprintln(a.stdout, "\nOutputs:")
	for _, o := range outs {
		text := valueText(o.Value, a.foldWidth()-len("   = ")-len(o.Name))
		a.printf("  %s = %s\n", o.Name, text)
	}
}

// resultLine returns the summary of a run in one line for grep.
func resultLine(p *plan.Plan, r *run.Applied, nothing bool) string {
	if nothing && r.ExitCode() == run.ExitOK {
		reused := func(s *run.StageResult) bool { return s.Reused && !s.Guarded }
		if !slices.ContainsFunc(r.Stages, reused) {
			return fmt.Sprintf("Apply: nothing to do, no stage of the selection runs (%.1fs).", r.Seconds)
		}
		return fmt.Sprintf("Apply: nothing to do, all stages are as their checkpoints say (%.1fs).", r.Seconds)
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

	text := fmt.Sprintf("Apply: %s measured, %s reused, %s failed, %s skipped", textutil.Count(c.Measured),
		textutil.Count(c.Reused), textutil.Count(c.Failed), textutil.Count(c.Skipped))

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
	if status[stage.StatusInterrupted] > 0 && !r.Detached {
		text += " The same command goes on from here."
	}

	return text
}
