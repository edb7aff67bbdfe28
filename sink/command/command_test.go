//go:build linux

package command_test

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"aicplan/sink/command"
)

func TestOutputDoesNotWaitForDescendants(t *testing.T) {
	t.Parallel()
	for script, code := range map[string]int{"exit 3": 3, "exit 0": 0} {
		cmd := exec.Command("sh", "-c", "sleep 600 & printf 1.0; printf 'no disk' >&2; "+script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := command.Output(cmd)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the sleep
		if string(out) != "1.0" || (err != nil) != (code != 0) {
			t.Errorf("%s: %q, %v", script, out, err)
		}
		exit, ok := errors.AsType[*exec.ExitError](err)
		if code != 0 && (!ok || exit.ExitCode() != code || string(exit.Stderr) != "no disk") {
			t.Errorf("%s: %v", script, err)
		}
	}
	if _, err := command.Output(exec.Command("/nowhere/python3")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing program: %v", err)
	}
}

func TestRunIgnoresUnreadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "exec 3<&0; while test -d "+dir+"; do sleep 0.05; done >/dev/null 2>&1 & echo ready")
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	if out, err := command.Output(cmd); string(out) != "ready\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}
