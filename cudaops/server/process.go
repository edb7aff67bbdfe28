package server

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/sink/command"
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

	reap   chan struct{} // closed when its number may be given away
	reaped chan struct{}
	output *os.File
	read   chan struct{} // closed when the output has been read

	once    sync.Once
	stopped Stopped

	mu    sync.Mutex
	how   string         // it ended, once exited is closed
	below map[int]string // processes that it was seen to have started, with when they did
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
	p := &Process{mark: rand.Text(), exited: make(chan struct{}), reap: make(chan struct{}), reaped: make(chan struct{}), output: r, read: make(chan struct{})}
	cmd := exec.Command(path)
	cmd.Args = spec.Command
	cmd.Dir = spec.Dir
	// The worker's own descriptors are not the server's.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, worker.EnvFDIn+"=") || strings.HasPrefix(kv, worker.EnvFDOut+"=")
	})
	cmd.Env = append(append(cmd.Env, spec.Env...), EnvMark+"="+p.mark)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = procAttr()
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
		command.Hear(r, cmp.Or(spec.Log, NewLog(nil)))
	}()
	return p, nil
}

// keep starts the process and stays until it is reaped: the kernel ties the
// server's life to the thread that forked it, so this goroutine keeps its thread.
func (p *Process) keep(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	how := awaitExit(cmd)
	p.mu.Lock()
	p.how = how
	p.mu.Unlock()
	close(p.exited)
	// Its number stays taken until the whole group has been ended.
	<-p.reap
	_ = cmd.Wait() // how it ended is known
	close(p.reaped)
}

// Pid is the server's process number.
func (p *Process) Pid() int { return p.pid }

// Exited is closed when the server's first process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Ended says how the server's first process ended ("exit status 1", "SIGSEGV"); ""
// while it runs.
func (p *Process) Ended() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.how
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

// look notes the processes that the server has started: one that leaves the group
// with an environment of its own is known in no other way once its parent has ended.
func (p *Process) look() {
	below := worker.Below(p.pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.below == nil {
		p.below = map[int]string{}
	}
	maps.Copy(p.below, below)
}

func (p *Process) end(sig syscall.Signal, within time.Duration) Stopped {
	var out Stopped
	p.look()
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
	close(p.reap)
	<-p.reaped
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

// left lists the server's processes that have not ended, also those that left its
// process group.
func (p *Process) left() []int {
	out := append(worker.InGroup(p.pid), worker.WithVariable(EnvMark, p.mark)...)
	p.mu.Lock()
	for pid, started := range p.below {
		if worker.Runs(pid, started) {
			out = append(out, pid)
		}
	}
	p.mu.Unlock()
	slices.Sort(out)
	return slices.Compact(out)
}
