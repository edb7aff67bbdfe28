//go:build linux

package worker_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

// TestHearAfterAPause: what was printed before the end is heard, also where this
// process was stopped until the time for it was over.
func TestHearAfterAPause(t *testing.T) {
	t.Parallel()
	r, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer held.Close() // by a process that lives on
	const said = "RuntimeError: the weights are broken\n"
	if _, err := io.WriteString(held, said); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	worker.Hear(r, &got)
	if got.String() != said {
		t.Errorf("heard %q", got.String())
	}
}

// TestOutput: what a command printed is whole, and what it has started and holds its
// output open is not waited for.
func TestOutput(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "sleep 600 & printf 1.0; printf 'no disk' >&2; exit 3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := worker.Output(cmd, 0)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the sleep
	exit, ok := errors.AsType[*exec.ExitError](err)
	if string(out) != "1.0" || !ok || exit.ExitCode() != 3 || string(exit.Stderr) != "no disk" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := worker.Output(exec.Command("/nowhere/python3"), 0); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a program that is not there: %v", err)
	}
}
