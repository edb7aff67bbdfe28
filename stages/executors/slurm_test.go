package executors

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aicplan/sink/base/testutil"
)

// TestSchedulerIgnoresProcessesLeftBehind checks that a job counts as submitted even if a site's sbatch starts a
// process that keeps the output open. Otherwise it would be submitted twice.
func TestSchedulerIgnoresProcessesLeftBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sbatch := filepath.Join(dir, "sbatch")
	testutil.WriteProgram(t, sbatch, "#!/bin/sh\nwhile test -d "+dir+"; do sleep 0.05; done &\necho 4711\n")
	if out, err := run(t.Context(), time.Minute, sbatch); err != nil || out != "4711\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestSchedulerTimesOut checks that commands end at their timeout and when the run is cancelled.
func TestSchedulerTimesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	squeue := filepath.Join(dir, "squeue")
	testutil.WriteProgram(t, squeue, "#!/bin/sh\nwhile test -d "+dir+"; do sleep 0.05; done\n")
	if out, err := run(t.Context(), time.Millisecond, squeue); err == nil ||
		!strings.Contains(err.Error(), "did not answer within 1ms") {
		t.Errorf("%q, %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := run(ctx, time.Minute, squeue); err == nil {
		t.Errorf("after an interrupt: %q", out)
	}
}
