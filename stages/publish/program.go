package publish

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// runProgram runs git or gh in a session of its own, so that no child process
// finds a terminal to ask for a password. If ctx ends, the session gets SIGTERM, and
// SIGKILL a second later.
func runProgram(ctx context.Context, cmd *exec.Cmd) error {
	cmd.Env = append(cmd.Env, "GIT_TERMINAL_PROMPT=0", "GH_PROMPT_DISABLED=1", "SSH_ASKPASS_REQUIRE=never")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	signal := func(sig syscall.Signal) error {
		if err := syscall.Kill(-cmd.Process.Pid, sig); errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		} else {
			return err
		}
	}

	cmd.Cancel = func() error { return signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Second

	err := cmd.Run()

	if ctx.Err() != nil && cmd.Process != nil {
		_ = signal(syscall.SIGKILL) // children that ignored SIGTERM
	}

	return err
}
