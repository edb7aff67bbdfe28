package runbook

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"aicplan/cudaops/worker"
)

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may be gone

// marked lists the processes of a run, including those that left its process group.
func marked(id string) []int { return worker.WithVariable(marker, id) }

// patience is how long a process may take to end after SIGTERM, and then after SIGKILL.
const patience = 5 * time.Second

// stopMarked ends the processes of a run with SIGTERM and then with SIGKILL.
func stopMarked(id string) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, pid := range marked(id) {
			_ = syscall.Kill(pid, sig) // it may have ended meanwhile
		}
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if len(marked(id)) == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("processes %v could not be stopped", marked(id))
}
