package server

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"aicplan/cudaops/worker"
)

// EnvMark is the environment variable that identifies the processes of a server, including those that left
// its process group.
const EnvMark = "AICPLAN_SERVER"

// Spec describes how to start a server.
type Spec struct {
	Command []string
	Env     []string // "NAME=value", added to this process's environment
	Dir     string   // "" means this process's directory
	Log     *Log     // receives stdout and stderr
}

// Process is a running server. Its methods are safe for concurrent use.
type Process struct {
	pid    int
	mark   string
	exited chan struct{} // closed when the first process has ended
	how    string        // how it ended, set before exited is closed

	output *os.File
	read   chan struct{} // closed when the output has been read

	once    sync.Once
	stopped Stopped
}

// Start starts a server in a new process group. It returns an error if the command cannot be run.
func Start(spec Spec) (*Process, error) {
	path, err := exec.LookPath(spec.Command[0])
	if err != nil {
		return nil, fmt.Errorf("the server's command: %w", err)
	}

	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}

	p := &Process{mark: rand.Text(), exited: make(chan struct{}), output: r, read: make(chan struct{})}
	cmd := exec.Command(path)
	cmd.Args = spec.Command
	cmd.Dir = spec.Dir

	// Do not pass the worker's file descriptors to the server.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, worker.EnvFDIn+"=") || strings.HasPrefix(kv, worker.EnvFDOut+"=")
	})

	cmd.Env = append(append(cmd.Env, spec.Env...), EnvMark+"="+p.mark)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = worker.ProcAttr()
	started := make(chan error)
	go p.keep(cmd, started)
	err = <-started
	_ = w.Close() // the server has inherited a copy
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("the server's command: %w", err)
	}

	go func() {
		defer close(p.read)
		_, _ = io.Copy(cmp.Or(spec.Log, NewLog(nil)), r) // until EOF or the deadline in end
	}()

	return p, nil
}

// keep starts the process and waits for its end. The kernel sends the parent-death signal when the thread
// that forked the child ends, so this goroutine is locked to its thread.
func (p *Process) keep(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}

	p.pid = cmd.Process.Pid
	started <- nil

	err := cmd.Wait()
	if p.how = worker.DescribeExit(cmd, err); p.how == "" {
		p.how = "exit status 0"
	}

	close(p.exited)
}

// Pid returns the process id of the server.
func (p *Process) Pid() int { return p.pid }

// Exited returns a channel that is closed when the server's first process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Ended returns how the server's first process ended ("exit status 1", "SIGSEGV"), or "" while it is
// running.
func (p *Process) Ended() string {
	select {
	case <-p.exited:
		return p.how
	default:
		return ""
	}
}

// Stopped describes how a server ended.
type Stopped struct {
	// How is the result of Ended.
	How string
	// Killed is true if processes did not end after the signal and were killed.
	Killed bool
	// Orphans are processes that were still running after the server had ended, as process id and command.
	Orphans []string
}

// stopPoll is the interval in which remaining processes are checked.
const stopPoll = 50 * time.Millisecond

// killPatience is how long to wait for killed processes.
const killPatience = 10 * time.Second

// Stop sends sig to the server's process group and kills all remaining processes after within. It reports
// what was left. Further calls return the result of the first one.
func (p *Process) Stop(sig syscall.Signal, within time.Duration) Stopped {
	p.once.Do(func() { p.stopped = p.end(sig, within) })
	return p.stopped
}

func (p *Process) end(sig syscall.Signal, within time.Duration) Stopped {
	var out Stopped
	select {
	case <-p.exited: // do not signal remaining processes, they are killed below
	default:
		_ = syscall.Kill(-p.pid, sig)
		out.Killed = !p.endsWithin(within)
	}

	for _, pid := range p.left() {
		if pid != p.pid {
			out.Orphans = append(out.Orphans, strings.TrimSpace(fmt.Sprintf("%d %s", pid, worker.CommandOf(pid))))
		}
	}

	for end := time.Now().Add(killPatience); ; time.Sleep(stopPoll) {
		left := p.left()
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(left) == 0 || time.Now().After(end) {
			break
		}
	}

	<-p.exited

	// A process stuck in the kernel may still have the pipe open.
	_ = p.output.SetReadDeadline(time.Now().Add(time.Second))
	<-p.read
	_ = p.output.Close()
	out.How = p.Ended()

	return out
}

// endsWithin waits until all processes of the server have ended. It returns false after a timeout.
func (p *Process) endsWithin(within time.Duration) bool {
	deadline := time.NewTimer(within)
	defer deadline.Stop()

	select {
	case <-p.exited:
	case <-deadline.C:
		return false
	}

	// Child processes of a server end shortly after it.
	for len(p.left()) > 0 {
		select {
		case <-deadline.C:
			return false
		case <-time.After(stopPoll):
		}
	}

	return true
}

// left returns the running processes of the server, including those that left its process group.
func (p *Process) left() []int {
	out := append(worker.InGroup(p.pid), worker.WithVariable(EnvMark, p.mark)...)
	slices.Sort(out)
	return slices.Compact(out)
}
