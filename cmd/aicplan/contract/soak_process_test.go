package contract

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |goroutine \d+ \[)|internal error`)

// running is a started command.
type running struct {
	*trial
	cmd  *exec.Cmd
	out  bytes.Buffer // complete when done is closed
	done chan struct{}
	code int
}

// command returns a command in the trial's folder, in a new process group.
func (t *trial) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "AICPLAN_LOCK_DIR="+filepath.Join(t.dir, ".locks"),
		"TMPDIR="+filepath.Join(t.dir, "tmp"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// start starts aicplan.
func (t *trial) start(args ...string) *running { return t.begin(t.command(binary, args...)) }

func (t *trial) begin(cmd *exec.Cmd) *running {
	r := &running{trial: t, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &r.out, &r.out
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}

	go func() {
		defer close(r.done)
		_ = cmd.Wait()
		r.code = cmd.ProcessState.ExitCode()
	}()

	return r
}

// wait returns the exit code, or -1 if a signal ended the command. A command that hangs is killed and
// recorded as an error.
func (r *running) wait() int {
	select {
	case <-r.done:
	case <-time.After(r.patience()):
		r.Errorf("%s hangs for %s", strings.Join(r.cmd.Args, " "), r.patience())
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
		t.Errorf("aicplan %s prints %q", strings.Join(args, " "), found)
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
		r.Error(err)
	}
}

// workers returns the processes of the trial besides the engine.
func (r *running) workers() []int {
	return slices.DeleteFunc(r.processes(), func(pid int) bool { return pid == r.cmd.Process.Pid })
}
