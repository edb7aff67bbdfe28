//go:build linux

package worker_test

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

// TestOutputAfterAPause: what a command printed is whole though something that it has
// started holds its output open, also where the time for that was over before anybody
// could look.
func TestOutputAfterAPause(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "sleep 600 & printf 1.0; printf 'no disk' >&2; exit 3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := worker.Output(cmd, -time.Second)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the sleep
	exit, ok := errors.AsType[*exec.ExitError](err)
	if string(out) != "1.0" || !ok || exit.ExitCode() != 3 || string(exit.Stderr) != "no disk" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := worker.Output(exec.Command("/nowhere/python3"), time.Second); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a program that is not there: %v", err)
	}
}
