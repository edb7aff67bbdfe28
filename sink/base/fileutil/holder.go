package fileutil

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aicplan/sink/base/proc"
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
	// Reads and Writes name what the holder uses, for locks that several processes have at the same time.
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`
}

// Self describes this process; now is its mark's time.
func Self(command, runID string, now time.Time) Holder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return Holder{
		PID: os.Getpid(), Host: host, Started: now.UTC().Truncate(time.Second), Command: command, RunID: runID,
		BootID: proc.BootID(), StartTicks: startTicks(os.Getpid()),
	}
}

// String is "aicplan apply p.hcl" (pid 12 on node3, since 2026-11-22 03:04:05).
func (h *Holder) String() string {
	return fmt.Sprintf("%q (pid %d on %s, since %s)", textutil.Clip(h.Command, 120), h.PID, h.Host,
		h.Started.Local().Format("2006-01-02 15:04:05"))
}

// SameKernel reports whether the holder was recorded under the running kernel. A file lock
// then decides whether the holder is alive, also in another container. It is false for
// another machine, and for this one before its last boot.
func (h *Holder) SameKernel() bool { return h.BootID != "" && h.BootID == proc.BootID() }

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

// startTicks returns the start time of a process in clock ticks since boot, or 0 if it is
// unknown.
func startTicks(pid int) uint64 {
	ticks, _ := strconv.ParseUint(proc.StartTicks(pid), 10, 64) // 0 if it is no number
	return ticks
}

// kernelHolder describes the process that has a lock on a file, from what the kernel reports. It returns nil
// if the kernel does not report it, as for processes of other containers.
func kernelHolder(f *os.File) *Holder {
	var at unix.Stat_t
	if unix.Fstat(int(f.Fd()), &at) != nil {
		return nil
	}

	dev := uint64(at.Dev)
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), at.Ino)
	locks, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 539 00:15:4026532180 0 EOF
		words := strings.Fields(line)
		if len(words) < 6 || words[1] != "FLOCK" || words[5] != id {
			continue
		}

		pid, err := strconv.Atoi(words[4])
		if err != nil || pid <= 0 {
			return nil
		}
		h := Self(proc.CommandLine(pid), "", startTime(pid))
		h.PID, h.StartTicks = pid, startTicks(pid)
		return &h
	}
	return nil
}

// startTime returns when a process was started, or the zero time if it is unknown.
func startTime(pid int) time.Time {
	data, _ := os.ReadFile("/proc/stat")
	_, rest, _ := strings.Cut(string(data), "\nbtime ")
	var seconds int64
	_, err := fmt.Sscan(rest, &seconds)
	ticks := startTicks(pid)
	if err != nil || ticks == 0 {
		return time.Time{}
	}
	const perSecond = 100 // for every architecture of Linux
	return time.Unix(seconds, 0).Add(time.Duration(ticks) * (time.Second / perSecond))
}
