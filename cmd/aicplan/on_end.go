package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"aicplan/engine/run"
	"aicplan/sink/command"
)

// onEndDeadline bounds the user's command: a hanging mail server must not keep
// a finished run on the screen.
const onEndDeadline = time.Minute

// onEnd runs the user's command when a run has ended, however it did. The
// command is the user's own, from the command line or the environment; a plan
// cannot name one. Its result changes no exit code.
func (a *app) onEnd(line, stateDir string, r *run.Applied) {
	if line == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), onEndDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Stdout, cmd.Stderr = a.stderr, a.stderr
	var measured, failed int
	for _, s := range r.Stages {
		if s.Outcome != nil {
			measured += s.Outcome.Counts.Measured
			failed += s.Outcome.Counts.Failed
		}
	}
	cmd.Env = append(os.Environ(),
		"AICPLAN_RUN="+r.RunID, "AICPLAN_EXIT_CODE="+strconv.Itoa(r.ExitCode()), "AICPLAN_SECONDS="+strconv.FormatFloat(r.Seconds, 'f', 0, 64),
		"AICPLAN_MEASURED="+strconv.Itoa(measured), "AICPLAN_FAILED="+strconv.Itoa(failed), "AICPLAN_STATE_DIR="+stateDir)
	// "notify &" leaves something behind that keeps the output open.
	if err := command.Run(cmd); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it was stopped after %s", onEndDeadline)
		}
		fmt.Fprintf(a.stderr, "Warning: -on-end: %v\n", err)
	}
}
