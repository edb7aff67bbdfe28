// Package command runs programs whose descendants may keep their output open.
package command

import (
	"errors"
	"os/exec"
	"time"
)

// Grace is how long Run and Output wait for the output of descendants after the
// program has ended.
const Grace = time.Second

// Run is cmd.Run with a WaitDelay of Grace if none is set. Output that is cut off by
// that delay is no error.
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return Wait(cmd)
}

// Output is cmd.Output with the delay and the errors of Run.
func Output(cmd *exec.Cmd) ([]byte, error) {
	cmd.WaitDelay = Grace
	out, err := cmd.Output()
	return out, ignoreDelay(err)
}

// Start is cmd.Start with a WaitDelay of Grace if none is set.
func Start(cmd *exec.Cmd) error {
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = Grace
	}
	return cmd.Start()
}

// Wait is cmd.Wait with the errors of Run.
func Wait(cmd *exec.Cmd) error { return ignoreDelay(cmd.Wait()) }

func ignoreDelay(err error) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}
