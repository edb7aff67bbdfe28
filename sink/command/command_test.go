//go:build linux

package command_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicplan/sink/command"
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
	command.Hear(r, &got)
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
	out, err := command.Output(cmd, 0)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the sleep
	exit, ok := errors.AsType[*exec.ExitError](err)
	if string(out) != "1.0" || !ok || exit.ExitCode() != 3 || string(exit.Stderr) != "no disk" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := command.Output(exec.Command("/nowhere/python3"), 0); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestInputLeftUnread: a command need not read its input, and what it has started need
// not close it.
func TestInputLeftUnread(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "exec 3<&0; while test -d "+dir+"; do sleep 0.05; done >/dev/null 2>&1 & echo ready")
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	if out, err := command.Output(cmd, 0); string(out) != "ready\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// TestTimeOver: a command that had ended well when its time ran out has ended well;
// one that had not is ended.
func TestTimeOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for script, want := range map[string]bool{"true": true, "while test -d " + dir + "; do sleep 0.05; done": false} {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, "sh", "-c", script)
		cmd.Cancel = func() error { // as where this process is stopped meanwhile
			if want {
				return nil
			}
			return cmd.Process.Kill()
		}
		r, err := command.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := r.Wait(); (err == nil) != want {
			t.Errorf("%s: %v", script, err)
		}
		r.Hear(0)
	}
}

// TestOneWriter gets both outputs in order.
func TestOneWriter(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	cmd := exec.Command("sh", "-c", "printf a; printf b >&2; printf c")
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := command.Run(cmd, 0); err != nil || said.String() != "abc" {
		t.Errorf("%q, %v", said.String(), err)
	}
}
