package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aicplan/sink/base/textutil"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// process is a process as the kernel reports it.
type process struct {
	pid, session int
	start        string // clock ticks since boot
	flags        uint64
	environEnd   uint64 // the address; 0 if the process has no environment yet or it may not be read
}

// processes returns the visible processes that have not ended.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()

	names, _ := dir.Readdirnames(-1)

	var out []process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := statOf(pid); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// statOf reads a process. ok is false if it has ended.
func statOf(pid int) (p process, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}

	// The fields follow the command's name, which may contain spaces and parentheses.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 49 || fields[0] == "Z" || fields[0] == "X" {
		return p, false
	}

	session, err := strconv.Atoi(fields[3])
	p = process{pid: pid, session: session, start: fields[19]}
	p.flags, _ = strconv.ParseUint(fields[6], 10, 64)
	p.environEnd, _ = strconv.ParseUint(fields[48], 10, 64)
	return p, err == nil
}

// kernelThread is the flag PF_KTHREAD: a thread of the kernel, which has no environment.
const kernelThread = 1 << 21

// loadPatience is how long to wait for a process whose program the kernel is loading.
const loadPatience = 5 * time.Second

// mark returns the value of Variable in the environment of a process, or "" if it has none or its
// environment cannot be read. It waits while the program of the process is being loaded.
func (p process) mark() string {
	if p.flags&kernelThread != 0 {
		return ""
	}

	environ, err := p.environ()
	for end := time.Now().Add(loadPatience); err == nil && len(environ) == 0 && time.Now().Before(end); {
		loading := p.loading()
		environ, err = p.environ() // the first one may be that of the program before
		if !loading {
			break
		}
		time.Sleep(time.Millisecond)
	}

	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(Variable+"=")); ok {
			return string(v)
		}
	}
	return ""
}

// environ returns the environment of a process. It is empty while the program is being loaded.
func (p process) environ() ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", p.pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()

	// The process may execute another program between two reads, and the second one then returns nothing.
	for size := 8 << 10; ; size *= 4 {
		all := make([]byte, size)
		n, err := f.ReadAt(all, 0)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if n < size {
			return all[:n], err
		}
	}
}

// loading reports whether the kernel is loading the program of a process. Until this is done, the process
// has no arguments and no environment. The caller must be permitted to read its environment.
func (p process) loading() bool {
	const exiting = 1 << 2 // PF_EXITING
	now, running := statOf(p.pid)
	return running && now.flags&(exiting|kernelThread) == 0 && now.environEnd == 0
}

// space identifies the booted machine and its process namespace, in which process ids are unique.
func space() string {
	link, _ := os.Readlink("/proc/self/ns/pid")
	return BootID() + "." + strings.Trim(strings.TrimPrefix(link, "pid:"), "[]")
}

// CommandLine returns the command line of a process, cut to 120 characters, or "" if it has ended.
func CommandLine(pid int) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return textutil.Clip(strings.TrimSpace(strings.ReplaceAll(string(raw), "\x00", " ")), 120)
}

// RSS returns the resident memory of a process in bytes, or 0 if it has ended.
func RSS(pid int) int64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var size, pages int64
	_, _ = fmt.Sscan(string(raw), &size, &pages) // the process may have ended
	return pages * int64(os.Getpagesize())
}

// NoCoreDumps keeps a crashing process from filling the disk.
func NoCoreDumps(pid int) { _ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil) } // it may have ended

// TakeStandard moves standard input and output to new file descriptors. Standard input is empty from then
// on, and standard output goes to standard error.
func TakeStandard() (in, out *os.File, err error) {
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

// CPUs returns the CPUs on which the calling thread may run, in ascending order.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}

	var out []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out, nil
}

// SetCPUs binds the calling thread to the given CPUs. The caller must have locked its goroutine to the
// thread. Errors are ignored, because not all systems permit it.
func SetCPUs(cpus []int) {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	_ = unix.SchedSetaffinity(0, &set)
}
