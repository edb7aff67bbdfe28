package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"aicplan/engine/checkpoint"
	"aicplan/engine/run"
	"aicplan/sink/base/textutil"
	"aicplan/stages/executors"
	"aicplan/stages/report"
	"aicplan/stages/report/live"
)

type statusCmd struct {
	Run_  string `arg:"" optional:"" name:"run" default:"latest" help:"A run's id, its beginning, or latest."`
	Watch bool   `short:"w" help:"Follow the run until it ends."`
	JSON  bool   `name:"json" help:"Print as JSON."`
}

// Help is printed below the summary.
func (statusCmd) Help() string {
	return `It reads what the run writes, so it works from a second terminal, and from
another host that sees the state folder.

Examples:
  aicplan status --watch
  aicplan --state-dir /shared/state status --json

Exit code 0 while the run or its jobs go on and after one that ended with 0; else the
run's own. A run without a sign of life for 100 s is told as lost: 1.`
}

// Run prints the progress of a run.
func (c *statusCmd) Run(a *app, store *checkpoint.Store) error {
	r, err := report.FindRun(store, c.Run_)
	if err != nil {
		return err
	}

	f := live.Follow(*r, store.Abandoned)
	if err := f.Poll(); err != nil {
		return err
	}

	if c.Watch && !c.JSON {
		if err := a.watch(f); err != nil {
			return err
		}
	}

	s, now := f.State, time.Now()
	jobs, err := executors.ProgressOf(store.Dir)
	if err != nil {
		return err
	}

	following, err := store.Following()
	if err != nil {
		return err
	}
	var others []*checkpoint.Holder
	for _, f := range following {
		if f.Alive && f.Holder.RunID != s.Run {
			others = append(others, f.Holder)
		}
	}

	if c.JSON {
		shown := struct {
			*live.State
			Jobs   []executors.Progress `json:"jobs,omitempty"`
			Others []*checkpoint.Holder `json:"others,omitempty"`
		}{s, jobs, others}
		if err := a.json(shown); err != nil {
			return err
		}
	} else {
		if !c.Watch {
			a.statusView(a.stdout, s, now, a.columns())
		}
		jobsView(a.stdout, jobs)
		for _, h := range others {
			fmt.Fprintf(a.stdout, "%s also follows jobs: %s\n", h, a.command("status", h.RunID))
		}
	}

	if len(jobs) > 0 {
		return nil // the run continues in its jobs
	}
	return ended(s, now)
}

// jobsView prints the tasks of collects on a cluster.
func jobsView(w io.Writer, jobs []executors.Progress) {
	for _, p := range jobs {
		started := 0
		var parts []string
		for _, state := range slices.Sorted(maps.Keys(p.Tasks)) {
			started += p.Tasks[state]
			parts = append(parts, fmt.Sprintf("%d %s", p.Tasks[state], state))
		}
		if n := p.Submitted - started; n > 0 {
			parts = append(parts, fmt.Sprintf("%d not started", n))
		}
		if p.Cancelled {
			parts = append(parts, "cancelled")
		}
		fmt.Fprintf(w, "Jobs of %s: %s: %s; %s measured by them, %s left.\n", p.Stage, textutil.Some(p.Submitted, "task"),
			strings.Join(parts, ", "), textutil.Count(p.Measured), textutil.Count(p.Left))
	}
}

// ended returns an error with the exit code for the current state of a run.
func ended(s *live.State, now time.Time) error {
	if s.Ended {
		return exitIf(*s.ExitCode != 0, *s.ExitCode)
	}
	return exitIf(!s.Alive(now), run.ExitError)
}

// statusView prints a run without the stages that wait or were reused.
func (a *app) statusView(w io.Writer, s *live.State, now time.Time, width int) {
	var b strings.Builder
	head := fmt.Sprintf("Run %s: %s, %s", s.Run, runWord(s, now), textutil.Duration(s.Seconds))
	if s.Plan != "" {
		head += ", " + s.Plan
	}

	if s.Host != "" {
		head += ", on " + s.Host
	}

	wrapped(&b, width, 2, "", head)
	done, failed, skipped, total := s.Totals()
	n := s.Count()
	gone := s.Word(now) == "lost"
	at := live.Running
	if gone {
		at = begun
	}

	wrapped(&b, width, 2, "", fmt.Sprintf(
		"Cases: %s of %s measured, %s failed, %s skipped. Stages: %d %s, %d waiting, %d ended.",
		textutil.Count(done), textutil.Count(total), textutil.Count(failed), textutil.Count(skipped),
		n[live.Running], at, n[live.Waiting], len(s.Stages)-n[live.Running]-n[live.Waiting]))

	var shown []*live.Stage
	names, words := 0, 0
	for _, st := range s.Stages {
		if st.Status != live.Waiting && !st.Reused && (st.Status != "ok" || st.Total > 0) {
			shown = append(shown, st)
			names, words = max(names, utf8.RuneCountInString(st.Address)), max(words, len(stageWord(st, gone)))
		}
	}

	for _, st := range shown {
		word, text := stageWord(st, gone), stageText(st, gone)
		if names+words+6+20 > width { // too wide for one line
			wrapped(&b, width, 6, "  "+st.Address+"  ", word)
			if text != "" {
				wrapped(&b, width, 6, "      ", text)
			}
			continue
		}
		wrapped(&b, width, names+words+6, fmt.Sprintf("  %-*s  %-*s  ", names, st.Address, words, word), text)
	}

	for i, f := range s.Failures {
		if i == 5 {
			fmt.Fprintf(&b, "  and %d more kinds of failures: %s\n", len(s.Failures)-i, a.command("failures"))
			break
		}
		wrapped(&b, width, 10, "  failed: ", fmt.Sprintf("%dx %s in %s: %s", f.Count, f.Class, f.Stage, f.Message))
	}

	io.WriteString(w, b.String())
}

func runWord(s *live.State, now time.Time) string {
	switch word := s.Word(now); word {
	case "ended":
		return fmt.Sprintf("ended with exit code %d", *s.ExitCode)

	case "lost":
		why := "no sign of life for %s"
		if s.Gone {
			why = "its process ended without a report: it was killed, or the disk was full; last sign of life %s ago"
		}
		return fmt.Sprintf("lost ("+why+"; the same apply goes on from where it was)",
			textutil.Duration(now.Sub(s.Seen).Seconds()))

	default:
		return word
	}
}

// begun is the status of a stage that was running when its run was lost.
const begun = "had begun"

func stageWord(st *live.Stage, gone bool) string {
	if gone && st.Status == live.Running {
		return begun
	}
	return st.Status
}

// stageText returns the progress of a stage. If gone is true, the run was lost and no rate is shown.
func stageText(st *live.Stage, gone bool) string {
	if st.Message != "" && st.Status != live.Running && st.Status != live.Waiting {
		return st.Message // the message contains the counts
	}

	var parts []string
	if st.Total > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s", textutil.Count(st.Done+st.Failed+st.Skipped),
			textutil.Count(st.Total)))
	}

	if st.Failed > 0 {
		parts = append(parts, textutil.Count(st.Failed)+" failed")
	}
	if st.Status == live.Running && !gone && st.Rate != nil {
		parts = append(parts, rateText(*st.Rate))
	}
	if st.Status == live.Running && !gone && st.Left != nil && *st.Left > 0 {
		parts = append(parts, textutil.Duration(*st.Left)+" left")
	}
	if st.Message != "" {
		parts = append(parts, st.Message)
	}

	return strings.Join(parts, ", ")
}
