// Package proc starts programs and ends them together with the processes that they started.
//
// A child process leads a session, gets SIGKILL if this process ends, and has no terminal to ask for a
// password. The processes of a Tree are found by their session and by an environment variable that they
// inherit, because servers change their process group and rewrite their environment. Where there is no
// /proc, only the process group is found.
package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Grace is how long Run and Output wait for the output of descendants after the program has ended, and for
// the end of a cancelled program before they kill it.
const Grace = time.Second

// Run runs a command that was created with exec.CommandContext and waits for its end. If the context ends,
// the command's process group gets SIGTERM, and SIGKILL after Grace. Descendants that outlive the command
// and keep its output open are no error.
func Run(cmd *exec.Cmd) error {
	_, err := run(cmd, func() ([]byte, error) { return nil, cmd.Run() })
	return err
}

// Output is Run for a command whose stdout is returned. An *exec.ExitError has its stderr.
func Output(cmd *exec.Cmd) ([]byte, error) { return run(cmd, cmd.Output) }

func run(cmd *exec.Cmd, wait func() ([]byte, error)) ([]byte, error) {
	var cancelled atomic.Bool
	signal := func(sig syscall.Signal) error {
		if err := syscall.Kill(-cmd.Process.Pid, sig); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}

	cmd.SysProcAttr, cmd.WaitDelay = attributes(), Grace
	cmd.Cancel = func() error {
		cancelled.Store(true)
		return signal(syscall.SIGTERM)
	}

	// The kernel sends the parent-death signal when the thread that forked the child ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	out, err := wait()
	if cancelled.Load() {
		_ = signal(syscall.SIGKILL) // descendants that ignore SIGTERM
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}

	return out, err
}

// Tree is a running program with the processes that it started. Its methods are safe for concurrent use.
type Tree struct {
	Pid   int    // of the command
	start string // of the command, in clock ticks since boot; "" if unknown
	mark  string
	done  chan struct{}
	exit  string // set before done is closed, as is code
	code  int

	once    sync.Once
	stopped Stopped
}

// Start starts a command as a new tree. It sets the command's SysProcAttr and adds a variable to its
// environment.
func Start(cmd *exec.Cmd) (*Tree, error) {
	t := &Tree{mark: newMark(), done: make(chan struct{})}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}

	cmd.Env = append(cmd.Env, Variable+"="+t.mark)
	cmd.SysProcAttr = attributes()
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = Grace
	}

	started := make(chan error)
	go t.keep(cmd, started)
	if err := <-started; err != nil {
		return nil, err
	}

	return t, nil
}

// keep starts the command and waits for its end, on one thread like run.
func (t *Tree) keep(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}

	t.Pid = cmd.Process.Pid
	t.start = StartTicks(t.Pid)
	started <- nil
	err := cmd.Wait()
	t.exit, t.code = describe(cmd, err), cmd.ProcessState.ExitCode()
	close(t.done)
}

// describe returns how a command ended.
func describe(cmd *exec.Cmd, err error) string {
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return "exit status 0"
	}

	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		if name := unix.SignalName(ws.Signal()); name != "" {
			return name
		}
		return fmt.Sprintf("signal %d", int(ws.Signal()))
	}

	return err.Error()
}

// Done returns a channel that is closed when the program has ended.
func (t *Tree) Done() <-chan struct{} { return t.done }

// Exit returns how the program ended ("exit status 0", "SIGSEGV"), or "" while it is running.
func (t *Tree) Exit() string {
	select {
	case <-t.done:
		return t.exit
	default:
		return ""
	}
}

// Code returns the exit status of the program, or -1 if it is running or was ended by a signal.
func (t *Tree) Code() int {
	if t.Exit() == "" {
		return -1
	}
	return t.code
}

// Signal sends a signal to the process group of the program. It does nothing after the end of the program.
func (t *Tree) Signal(sig syscall.Signal) {
	if t.Exit() == "" {
		_ = syscall.Kill(-t.Pid, sig) // the program may have ended in the meantime
	}
}

// Kill kills all processes of the tree and returns their number. It does not wait for their end.
func (t *Tree) Kill() int {
	t.Signal(syscall.SIGKILL)
	found := map[int]bool{}

	// A process may fork between two passes.
	for range 5 {
		before := len(found)
		for _, pid := range t.Members() {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				found[pid] = true
			}
		}
		if len(found) == before {
			break
		}
	}

	return len(found)
}

// Stopped describes how a tree ended.
type Stopped struct {
	// Killed is true if processes did not end after the signal and were killed.
	Killed bool
	// Orphans are processes that outlived the program, as process id and command line.
	Orphans []string
	// Left are processes that did not end although they were killed.
	Left []int
}

const (
	// stopPoll is the interval in which remaining processes are checked.
	stopPoll = 20 * time.Millisecond
	// killPatience is how long to wait for killed processes.
	killPatience = 10 * time.Second
)

// Stop sends a signal to the program, waits until all processes have ended, and kills the remaining ones
// after within. It returns when all have ended, or when killed processes did not end within ten seconds.
// Further calls return the result of the first one.
func (t *Tree) Stop(sig syscall.Signal, within time.Duration) Stopped {
	t.once.Do(func() { t.stopped = t.stop(sig, within) })
	return t.stopped
}

func (t *Tree) stop(sig syscall.Signal, within time.Duration) Stopped {
	var out Stopped
	if t.Exit() == "" { // orphans of a program that has ended are killed below
		t.Signal(sig)
		out.Killed = !t.endsWithin(within)
	}

	members := t.Members()
	if len(members) == 0 && t.Exit() != "" {
		return out
	}

	for _, pid := range members {
		if pid != t.Pid {
			out.Orphans = append(out.Orphans, strings.TrimSpace(fmt.Sprintf("%d %s", pid, CommandLine(pid))))
		}
	}

	t.Kill()
	for end := time.Now().Add(killPatience); !t.empty() && time.Now().Before(end); time.Sleep(stopPoll) {
		t.Kill()
	}

	out.Left = t.Members()
	return out
}

// endsWithin waits until all processes of the tree have ended. It returns false after a timeout.
func (t *Tree) endsWithin(within time.Duration) bool {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	select {
	case <-t.done:
	case <-deadline.C:
		return false
	}

	// Descendants of a server end shortly after it.
	for !t.empty() {
		select {
		case <-deadline.C:
			return false
		case <-time.After(stopPoll):
		}
	}

	return true
}

func (t *Tree) empty() bool { return t.Exit() != "" && len(t.Members()) == 0 }

// Members returns the running processes of the tree, in ascending order.
func (t *Tree) Members() []int {
	var out []int
	for _, p := range processes() {
		if p.pid == os.Getpid() || earlier(p.start, t.start) {
			continue
		}
		if p.session == t.Pid || strings.HasPrefix(p.mark()+"/", t.mark+"/") {
			out = append(out, p.pid)
		}
	}
	slices.Sort(out)
	return out
}

// earlier compares start times, which are decimal numbers.
func earlier(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// MemAvailable returns how many bytes can be allocated without swapping.
func MemAvailable() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}

	var kib int64
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, fmt.Errorf("/proc/meminfo has no MemAvailable")
	}
	return kib << 10, nil
}
