package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"aicplan/engine/run"
)

// interrupts are the signals that end a command.
func interrupts() chan os.Signal {
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it; else the session has ended
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals
}

// endOnInterrupt ends the process at the first Ctrl-C, until end is called.
// Before a run begins nothing has been measured, and the evaluation of a plan
// cannot be asked to stop.
func endOnInterrupt() (end func()) {
	signals, ended := interrupts(), make(chan struct{})
	go func() {
		select {
		case <-signals:
			fmt.Fprintln(os.Stderr, "\nInterrupted.")
			os.Exit(run.ExitInterrupted)
		case <-ended:
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() {
			signal.Stop(signals)
			close(ended)
		})
	}
}

// untilInterrupt is a context that ends with the first Ctrl-C.
func untilInterrupt() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := interrupts()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// outliveReader lets a run go on when what reads its output goes away, such as a
// tee that dies at night: what is measured is on disk. Who reads events needs all
// of them, and hears that they are not whole.
func (a *app) outliveReader(events bool) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // writes fail instead
	a.goesOn = !events
}

// secondPatience is how long stages may take to end after the second Ctrl-C:
// some are in the middle of a table.
const secondPatience = 3 * time.Second

// interruptible turns the first Ctrl-C into closing stop and the second, or the
// end of grace, into cancelling the context, which kills the workers: a case can
// be in the middle of a compilation of many minutes. Without a grace it waits for
// the second. Whatever does not end then is left: what was acknowledged is on
// disk, and workers end with this process.
func interruptible(grace time.Duration) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := make(chan struct{})
	signals := interrupts()
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
				fmt.Fprintf(os.Stderr, "\nStopping: what is in flight is finished and kept%s. Ctrl-C again stops at once.\n", within)
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
	var once sync.Once
	return ctx, stop, func() {
		once.Do(func() {
			signal.Stop(signals)
			close(ended)
			cancel()
		})
	}
}
