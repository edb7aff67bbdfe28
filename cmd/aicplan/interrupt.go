package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"aicplan/engine/run"
)

// interruptSignals returns the signals that end a command.
func interruptSignals() []os.Signal {
	out := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP; otherwise the session has ended
		out = append(out, syscall.SIGHUP)
	}
	return out
}

// endOnInterrupt exits the process on the first signal until end is called. Before a run starts nothing
// has been measured, and the evaluation of a plan cannot be cancelled.
func endOnInterrupt() (end func()) {
	ctx, stop := untilSignal()
	stay := context.AfterFunc(ctx, func() {
		fmt.Fprintln(os.Stderr, "\nInterrupted.")
		os.Exit(run.ExitInterrupted)
	})
	return func() {
		stay()
		stop()
	}
}

// untilSignal returns a context that is cancelled by the first signal.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), interruptSignals()...)
}

// outliveReader lets a run continue if the reader of its output exits, because the results are on disk.
// If events is true, the lost output is an error, because readers of events need all of them.
func (a *app) outliveReader(events bool) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write then fails with EPIPE
	a.goesOn = !events
}

// secondPatience is how long stages may take to end after the second Ctrl-C. Some may be writing a
// table.
const secondPatience = 3 * time.Second

// interruptible closes stop on the first Ctrl-C. On the second, or after grace, it cancels the context,
// which kills the workers, because a case may compile for many minutes. A grace of zero means that only
// the second Ctrl-C does so. If stages still do not end, the process exits. Acknowledged rows are on
// disk, and workers end with this process.
func interruptible(grace time.Duration) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := make(chan struct{})
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, interruptSignals()...)
	ended := make(chan struct{})
	go func() {
		var patience <-chan time.Time
		for n := 0; ; n++ {
			select {
			case <-signals:
			case <-patience:
			case <-ended:
				return
			}

			switch n {
			case 0:
				within := ""
				if grace > 0 {
					within = fmt.Sprintf(" if it ends within %v", grace)
					patience = time.After(grace)
				}
				fmt.Fprintf(os.Stderr, "\nStopping: what is in flight is finished and kept%s. Ctrl-C again stops at once.\n",
					within)
				close(stop)

			case 1:
				cancel()
				patience = time.After(secondPatience)

			default:
				fmt.Fprintln(os.Stderr, "Stopped at once; what was acknowledged is kept.")
				os.Exit(run.ExitInterrupted)
			}
		}
	}()

	return ctx, stop, func() {
		signal.Stop(signals)
		close(ended)
		cancel()
	}
}
