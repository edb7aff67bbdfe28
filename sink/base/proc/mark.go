package proc

import (
	"crypto/rand"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Variable is the environment variable that marks the processes of a tree. Its value is the starter of the
// outermost tree (machine and process namespace, process id, start time) and a random text for each tree
// from there to the innermost: "SPACE:PID:START/TEXT/TEXT".
const Variable = "AICPLAN_PROCESS"

// newMark returns the mark of a new tree, below that of this process if it has one.
func newMark() string {
	outer := os.Getenv(Variable)
	if outer == "" {
		outer = starter(os.Getpid())
	}
	return outer + "/" + rand.Text()
}

// starter returns the first part of the marks of trees that a process starts.
func starter(pid int) string {
	return space() + ":" + strconv.Itoa(pid) + ":" + StartTicks(pid)
}

// BootID identifies the running kernel. It is empty if the kernel does not report it.
func BootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

// StartTicks returns the start time of a running process in clock ticks since boot, or "" if it is unknown.
func StartTicks(pid int) string {
	p, _ := statOf(pid)
	return p.start
}

// Marked reports whether a process belongs to a tree of this or another program. The result is false if
// its environment cannot be read.
func Marked(pid int) bool { return process{pid: pid}.mark() != "" }

// KillOrphans kills the processes of trees whose outermost starter was killed on this machine. It returns
// their number. Processes of other users and of other process namespaces are not killed.
func KillOrphans() int { return killOrphans(space()) }

func killOrphans(here string) int {
	n := 0
	for _, p := range processes() {
		outer, _, marked := strings.Cut(p.mark(), "/")
		parts := strings.Split(outer, ":")
		if !marked || len(parts) != 3 || parts[0] != here || parts[2] == "" || p.pid == os.Getpid() {
			continue
		}

		engine, err := strconv.Atoi(parts[1])
		if err != nil {
			continue
		}
		if StartTicks(engine) == parts[2] {
			continue
		}

		if syscall.Kill(p.pid, syscall.SIGKILL) == nil {
			n++
		}
	}

	return n
}
