package runbook

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may be gone

// marked are the processes with the run's mark in their environment, those
// that left their group too.
func marked(id string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	want := []byte("\x00" + marker + "=" + id + "\x00")
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue // it ended, or is somebody else's
		}
		if bytes.Contains(append([]byte{0}, env...), want) {
			out = append(out, pid)
		}
	}
	return out
}

// patience is how long a process may take to end after SIGTERM.
const patience = 5 * time.Second

// stopMarked ends the marked processes: asked first, then killed.
func stopMarked(id string) error {
	signal := func(sig syscall.Signal) []int {
		pids := marked(id)
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig) // it may have ended meanwhile
		}
		return pids
	}
	if len(signal(syscall.SIGTERM)) == 0 {
		return nil
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if len(marked(id)) == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	signal(syscall.SIGKILL)
	for range 50 {
		if len(marked(id)) == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("processes %v could not be stopped", marked(id))
}
