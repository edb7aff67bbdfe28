package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"aicplan/sink/base/textutil"
	"aicplan/stages/report/live"
)

// watchInterval is the time between two updates of status --watch.
const watchInterval = time.Second

// watch prints the state of a run until it ends. On a terminal the view is redrawn.
func (a *app) watch(f *live.Follower) error {
	ctx, stop := untilSignal()
	defer stop()
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()

	lines, last := 0, ""
	for {
		if err := f.Poll(); err != nil {
			return err
		}

		s, now := f.State, time.Now()
		if a.isTerminal(a.stdout) {
			var b strings.Builder
			if lines > 0 {
				fmt.Fprintf(textutil.Raw(a.stdout), "\x1b[%dA\x1b[J", lines)
			}
			a.statusView(&b, s, now, a.columns())
			lines = strings.Count(b.String(), "\n")
			if _, err := io.WriteString(a.stdout, b.String()); err != nil {
				return err
			}
		} else if line := statusLine(s, now); line != last {
			last = line
			if _, err := fmt.Fprintln(a.stdout, line); err != nil {
				return err
			}
		}

		if s.Ended || !s.Alive(now) {
			return nil
		}

		select {
		case <-ctx.Done():
			return nil // the run itself continues
		case <-tick.C:
		}
	}
}

// statusLine returns the state of the run in one line.
func statusLine(s *live.State, now time.Time) string {
	done, failed, skipped, total := s.Totals()
	n, word, at := s.Count(), s.Word(now), live.Running
	if word == "lost" {
		at = begun
	}

	text := fmt.Sprintf("run %s %s: %d of %d stages %s, %s of %s cases", s.Run, word, n[live.Running], len(s.Stages), at,
		textutil.Count(done+failed+skipped), textutil.Count(total))

	if failed > 0 {
		text += fmt.Sprintf(", %s failed", textutil.Count(failed))
	}

	return text
}
