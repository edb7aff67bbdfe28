package runbook

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"aicplan/cudaops/worker"
)

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may have ended

// marked returns the processes of a run, including those that left its process group.
func marked(id string) []int { return worker.WithVariable(marker, id) }

// patience is how long to wait for processes after SIGTERM, and again after SIGKILL.
const patience = 5 * time.Second

// stopMarked stops the processes of a run with SIGTERM and then with SIGKILL. It returns an error if some
// remain.
func stopMarked(id string) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, pid := range marked(id) {
			_ = syscall.Kill(pid, sig) // it may have ended in the meantime
		}
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if len(marked(id)) == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("processes %v could not be stopped", marked(id))
}
