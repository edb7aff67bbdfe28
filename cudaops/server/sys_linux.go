package server

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// procAttr gives the server a process group of its own and has the kernel end it
// when the thread that started it dies with its process.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until a child has ended, leaves it to be reaped, and says how it
// ended.
func awaitExit(cmd *exec.Cmd) string {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err.Error()
		}
		return ending(cmd.Process.Pid)
	}
}

// exitField is where /proc/PID/stat has a zombie's status, counted from behind the
// command's name.
const exitField = 49

// ending reads how a child that was not reaped has ended.
func ending(pid int) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err.Error()
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) <= exitField {
		return "an unknown status"
	}
	status, err := strconv.Atoi(string(fields[exitField]))
	if err != nil {
		return "an unknown status"
	}
	if ws := syscall.WaitStatus(status); ws.Signaled() {
		return unix.SignalName(ws.Signal())
	} else {
		return fmt.Sprintf("exit status %d", ws.ExitStatus())
	}
}
