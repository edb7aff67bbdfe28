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

// EnvMark is the variable by which the processes of a server are found, also
// those that left its process group.
const EnvMark = "AICPLAN_SERVER"

// Spec says how to start a server.
type Spec struct {
	Command []string
	Env     []string // "NAME=value", on top of this process's environment
	Dir     string   // "" is this process's
	Log     *Log     // takes stdout and stderr
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

// Start starts a server in a process group of its own. The error says why the
// command cannot be run at all.
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
	// The worker's own descriptors are not the server's.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, worker.EnvFDIn+"=") || strings.HasPrefix(kv, worker.EnvFDOut+"=")
	})
	cmd.Env = append(append(cmd.Env, spec.Env...), EnvMark+"="+p.mark)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = worker.ProcAttr()
	started := make(chan error)
	go p.keep(cmd, started)
	err = <-started
	_ = w.Close() // the server has its own
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("the server's command: %w", err)
	}
	go func() {
		defer close(p.read)
		_, _ = io.Copy(cmp.Or(spec.Log, NewLog(nil)), r) // until EOF or the deadline of end
	}()
	return p, nil
}

// keep starts the process and waits for its end. The kernel sends the parent-death
// signal when the thread that forked the child ends, so this goroutine keeps its thread.
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

// Pid is the server's process number.
func (p *Process) Pid() int { return p.pid }

// Exited is closed when the server's first process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Ended returns how the server's first process ended ("exit status 1", "SIGSEGV"), or
// "" while it runs.
func (p *Process) Ended() string {
	select {
	case <-p.exited:
		return p.how
	default:
		return ""
	}
}

// Stopped is how a server was ended.
type Stopped struct {
	// How the first process ended, as Ended.
	How string
	// Killed is true when it, or what it started, did not end when asked to.
	Killed bool
	// Orphans are processes that the server had started and left behind when it
	// had ended: their numbers and commands.
	Orphans []string
}

// stopPoll is how often the processes of a server are looked for while they end.
const stopPoll = 50 * time.Millisecond

// killPatience is how long killed processes may take to be gone.
const killPatience = 10 * time.Second

// Stop asks the server's process group to end, ends by force what is left after
// within, and says what it found. Later calls return what the first one did.
func (p *Process) Stop(sig syscall.Signal, within time.Duration) Stopped {
	p.once.Do(func() { p.stopped = p.end(sig, within) })
	return p.stopped
}

func (p *Process) end(sig syscall.Signal, within time.Duration) Stopped {
	var out Stopped
	select {
	case <-p.exited: // what it left behind is not asked
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
	// A process that is stuck in the kernel may still hold the pipe.
	_ = p.output.SetReadDeadline(time.Now().Add(time.Second))
	<-p.read
	_ = p.output.Close()
	out.How = p.Ended()
	return out
}

// endsWithin waits until no process of the server is left; false when some are.
func (p *Process) endsWithin(within time.Duration) bool {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	select {
	case <-p.exited:
	case <-deadline.C:
		return false
	}
	// Workers of a server end shortly after it.
	for len(p.left()) > 0 {
		select {
		case <-deadline.C:
			return false
		case <-time.After(stopPoll):
		}
	}
	return true
}

// left lists the server's processes that have not ended, including those that left its
// process group.
func (p *Process) left() []int {
	out := append(worker.InGroup(p.pid), worker.WithVariable(EnvMark, p.mark)...)
	slices.Sort(out)
	return slices.Compact(out)
}
