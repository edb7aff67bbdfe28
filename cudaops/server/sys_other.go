//go:build !linux

package server

import (
	"os/exec"
	"syscall"
)

func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit waits for the first process; its number may be another's from then on.
func awaitExit(cmd *exec.Cmd) string {
	if err := cmd.Wait(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}
