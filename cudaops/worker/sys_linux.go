package worker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ProcAttr puts a child into its own process group and has the kernel end it when the
// thread that started it ends.
func ProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// noCoreDumps keeps a crashing framework from filling the disk.
func noCoreDumps(pid int) {
	// A worker that is gone already needs no limit.
	_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}

// ownMarker returns a text that no other worker on any machine has: its parts
// tell a later engine whether the one that set it is still there.
func ownMarker(slot, unique string) string {
	self := os.Getpid()
	return strings.Join([]string{pidNamespace(), strconv.Itoa(self), startTime(self), slot, unique}, ":")
}

// pidNamespace names the space that process numbers are meant in.
func pidNamespace() string {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "?"
	}
	return strings.Trim(strings.TrimPrefix(link, "pid:"), "[]")
}

// startTime returns when a process started, in the kernel's ticks since boot.
func startTime(pid int) string {
	_, fields, ok := procStat(pid)
	if !ok || len(fields) < 20 {
		return "?"
	}
	return fields[19]
}

// procStat returns the parent and the fields after the command's name of
// /proc/PID/stat.
func procStat(pid int) (ppid int, fields []string, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, nil, false
	}
	// The name may hold spaces and parentheses; the last one ends it.
	end := bytes.LastIndexByte(raw, ')')
	if end < 0 {
		return 0, nil, false
	}
	fields = strings.Fields(string(raw[end+1:]))
	if len(fields) < 2 {
		return 0, nil, false
	}
	ppid, err = strconv.Atoi(fields[1])
	return ppid, fields, err == nil
}

// allPids lists the processes that can be seen.
func allPids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// markerOf returns the marker in a process's environment, "" without one or
// where it may not be read (another user's process is none of ours).
func markerOf(pid int) string { return variableOf(pid, EnvMarker) }

// WithVariable lists the processes, other than this one, whose environment has a
// variable with a value. Those whose environment may not be read are left out,
// and so are those that have ended and wait for their parent.
func WithVariable(name, value string) []int {
	var out []int
	for _, pid := range allPids() {
		if pid == os.Getpid() || variableOf(pid, name) != value {
			continue
		}
		if _, fields, ok := procStat(pid); ok && fields[0] != "Z" {
			out = append(out, pid)
		}
	}
	return out
}

// InGroup lists the processes of a process group that have not ended.
func InGroup(pgid int) []int {
	var out []int
	for _, pid := range allPids() {
		if _, fields, ok := procStat(pid); ok && len(fields) > 2 && fields[2] == strconv.Itoa(pgid) && fields[0] != "Z" {
			out = append(out, pid)
		}
	}
	return out
}

// CommandOf is the command line of a process as far as it is short, "" when it is
// gone.
func CommandOf(pid int) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	text := strings.TrimSpace(strings.ReplaceAll(string(raw), "\x00", " "))
	const most = 80
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// variableOf returns the value of a variable in a process's environment, or "" if it
// is not set or the environment cannot be read.
func variableOf(pid int, name string) string {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(name+"=")); ok {
			return string(v)
		}
	}
	return ""
}

// Started says whether a process is a worker of this or another aicplan, or was
// started by one. Processes whose environment may not be read are not.
func Started(pid int) bool { return markerOf(pid) != "" }

// markerEngine is the process that set a marker; 0 for no marker.
func markerEngine(marker string) int {
	parts := strings.Split(marker, ":")
	if len(parts) != 5 {
		return 0
	}
	engine, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return engine
}

// descendants lists the processes below pid.
func descendants(pid int) []int {
	children := map[int][]int{}
	for _, p := range allPids() {
		if parent, _, ok := procStat(p); ok {
			children[parent] = append(children[parent], p)
		}
	}
	var out []int
	queue := children[pid]
	for len(queue) > 0 {
		p := queue[0]
		queue = append(queue[1:], children[p]...)
		out = append(out, p)
	}
	return out
}

// killMarked ends every process whose environment carries the marker and
// returns how many there were. It looks again until none is left, because a
// process may fork while it is looked for.
func killMarked(marker string) int {
	found := map[int]bool{}
	for range 5 {
		again := false
		for _, pid := range allPids() {
			if pid == os.Getpid() || markerOf(pid) != marker {
				continue
			}
			if _, fields, ok := procStat(pid); !ok || fields[0] == "Z" {
				continue
			}
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				again = again || !found[pid]
				found[pid] = true
			}
		}
		if !again {
			break
		}
	}
	return len(found)
}

// ReapOrphans ends the workers, and what they started, of engines on this
// machine that are gone without having cleaned up: killed ones, for example. It
// returns how many processes it ended. Processes of other users, of other
// process namespaces and of living engines are left alone.
func ReapOrphans() int { return reapOrphans(pidNamespace()) }

// reapOrphans ends those whose marker names a process namespace.
func reapOrphans(ns string) int {
	n := 0
	for _, pid := range allPids() {
		marker := markerOf(pid)
		parts := strings.Split(marker, ":")
		engine := markerEngine(marker)
		if engine == 0 || parts[0] != ns || ns == "?" || parts[2] == "?" || startTime(engine) == parts[2] {
			continue
		}
		if pid != os.Getpid() && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// rssBytes is the memory of a process that is in use now; 0 when it is gone.
func rssBytes(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// takeStandard moves standard input and output to descriptors of their own and
// leaves nothing to read and standard error in their places.
func takeStandard() (in, out *os.File, err error) {
	take := func(fd int, name string, put int) (*os.File, error) {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(own), name), unix.Dup3(put, fd, 0)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	if in, err = take(0, "stdin", int(null.Fd())); err != nil {
		return nil, nil, err
	}
	if out, err = take(1, "stdout", 2); err != nil {
		return nil, nil, err
	}
	return in, out, nil
}
