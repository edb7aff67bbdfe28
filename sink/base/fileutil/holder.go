package fileutil

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"aicplan/sink/base/textutil"
)

// Holder describes the process that has a lock.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
	Command string    `json:"command"`
	RunID   string    `json:"run_id,omitempty"`
	// BootID and StartTicks distinguish a process from a later one with the same pid.
	BootID     string `json:"boot_id,omitempty"`
	StartTicks uint64 `json:"start_ticks,omitempty"`
}

// Self describes this process; now is its mark's time.
func Self(command, runID string, now time.Time) Holder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return Holder{
		PID: os.Getpid(), Host: host, Started: now.UTC().Truncate(time.Second), Command: command, RunID: runID,
		BootID: bootID(), StartTicks: startTicks(os.Getpid()),
	}
}

// String is "aicplan apply p.hcl" (pid 12 on node3, since 2026-11-22 03:04:05).
func (h *Holder) String() string {
	return fmt.Sprintf("%q (pid %d on %s, since %s)", textutil.Clip(h.Command, 120), h.PID, h.Host, h.Started.Local().Format("2006-01-02 15:04:05"))
}

// SameKernel reports whether the holder was recorded under the running kernel. A file lock
// then decides whether the holder is alive, also in another container. It is false for
// another machine, and for this one before its last boot.
func (h *Holder) SameKernel() bool { return h.BootID != "" && h.BootID == bootID() }

// Running reports whether the process of the holder exists. The result is valid only under
// the same kernel and in the same container.
func (h *Holder) Running() bool {
	err := syscall.Kill(h.PID, 0)
	if err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	ticks := startTicks(h.PID)
	return ticks == 0 || h.StartTicks == 0 || ticks == h.StartTicks
}

// bootID identifies the running kernel. It is empty if the kernel does not report it.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// startTicks returns the start time of a process in clock ticks since boot, or 0 if it is
// unknown.
func startTicks(pid int) uint64 {
	fields := stat(pid)
	if len(fields) < 20 {
		return 0
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}

// stat returns the fields of /proc/PID/stat from the third one, the state, on. It returns
// nil if there is no such process.
func stat(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	// The command, in parentheses, may hold spaces and parentheses.
	_, rest, _ := strings.Cut(string(data[max(0, strings.LastIndexByte(string(data), ')')):]), " ")
	return strings.Fields(rest)
}
