package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |goroutine \d+ \[)|internal error`)

// running is a started command.
type running struct {
	*trial
	cmd  *exec.Cmd
	out  output
	done chan struct{}
	code int
}

// output collects what a command prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start starts aicplan in the trial's folder, in a new process group.
func (t *trial) start(args ...string) *running {
	r := t.prepare(t.binary, args...)
	r.cmd.Stderr = &r.out
	return r.begin()
}

// startQuiet is start without the error output.
func (t *trial) startQuiet(args ...string) *running { return t.prepare(t.binary, args...).begin() }

// startShell runs a shell command in which $0 is aicplan.
func (t *trial) startShell(line string) *running {
	r := t.prepare("sh", "-c", line, t.binary)
	r.cmd.Stderr = &r.out
	return r.begin()
}

func (t *trial) prepare(name string, args ...string) *running {
	r := &running{trial: t, cmd: exec.Command(name, args...), done: make(chan struct{})}
	r.cmd.Dir = t.dir
	r.cmd.Env = append(os.Environ(), "NO_COLOR=1", "AICPLAN_LOCK_DIR="+filepath.Join(t.dir, ".locks"), "TMPDIR="+
		filepath.Join(t.dir, "tmp"))
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.WaitDelay = 5 * time.Second
	r.cmd.Stdout = &r.out
	return r
}

func (r *running) begin() *running {
	if err := r.cmd.Start(); err != nil {
		r.errorf("%v", err)
		r.code = -1
		close(r.done)
		return r
	}

	go func() {
		defer close(r.done)
		_ = r.cmd.Wait()
		r.code = r.cmd.ProcessState.ExitCode()
	}()

	return r
}

// wait returns the exit code, or -1 if a signal ended the command. A command that hangs is killed and
// recorded as an error.
func (r *running) wait() int {
	select {
	case <-r.done:
	case <-time.After(r.patience()):
		r.errorf("%s hangs for %s", strings.Join(r.cmd.Args, " "), r.patience())
		r.signal(syscall.SIGKILL, true)
		<-r.done
	}
	return r.code
}

// run runs aicplan to its end and records an error if it crashes.
func (t *trial) run(args ...string) (string, int) {
	r := t.start(args...)
	code := r.wait()
	if found := crash.FindString(r.out.String()); found != "" {
		t.errorf("aicplan %s prints %q", strings.Join(args, " "), found)
	}
	return r.out.String(), code
}

// sleep waits for a random duration or until the run ends.
func (r *running) sleep() {
	select {
	case <-r.done:
	case <-time.After(time.Duration(r.random.Float64() * 1.1 * float64(r.scene.took))):
	}
}

// measuring waits until the journal has reached a random share of its final size or the run ends.
func (r *running) measuring() {
	r.journalled(1 + int64(r.random.Float64()*float64(r.scene.journal)))
}

func (r *running) journalled(size int64) {
	for !r.ended() && r.journalSize() < size {
		time.Sleep(300 * time.Microsecond)
	}
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// signal sends a signal to the process group, or to the engine only.
func (r *running) signal(sig syscall.Signal, group bool) {
	if r.cmd.Process == nil {
		return
	}
	pid := r.cmd.Process.Pid
	if group {
		pid = -pid
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		r.errorf("%v", err)
	}
}

// workers returns the engine's child processes.
func (r *running) workers() []int {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(r.cmd.Process.Pid)).Output()
	if err != nil {
		return nil // no children, or the run has ended
	}

	var pids []int
	for word := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}

	return pids
}
