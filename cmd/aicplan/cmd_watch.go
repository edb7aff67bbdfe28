package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"aicplan/sink/base/textutil"
	"aicplan/stages/report/live"
)

// watchInterval is the time between two updates of watch.
const watchInterval = time.Second

type watchCmd struct {
	Run_ string `arg:"" optional:"" name:"run" default:"latest" help:"A run's id, its beginning, or latest."`
}

// Help is printed below the summary.
func (watchCmd) Help() string {
	return `On a terminal the view is redrawn every second; elsewhere a line is printed
after every change. It ends with the run, and with the run's exit code.`
}

// Run shows a run until it ends.
func (c *watchCmd) Run(a *app) error {
	f, store, err := a.follow(c.Run_)
	if err != nil {
		return err
	}

	defer store.Close()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()

	lines, last := 0, ""
	for {
		if err := f.Poll(); err != nil {
			return err
		}

		s, now := f.State(), time.Now()
		if a.isTerminal(a.stdout) {
			var b strings.Builder
			if lines > 0 {
				fmt.Fprintf(&b, "\x1b[%dA\x1b[J", lines)
			}
			start := b.Len()
			statusView(&b, s, now, a.columns())
			lines = strings.Count(b.String()[start:], "\n")
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
			return ended(s, now)
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
		textutil.Count(int64(done+failed+skipped)), textutil.Count(int64(total)))

	if failed > 0 {
		text += fmt.Sprintf(", %s failed", textutil.Count(int64(failed)))
	}

	return text
}
