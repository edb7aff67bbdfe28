package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// command is aicplan in the trial's folder and in a process group of its own.
func (t *trial) command(args ...string) *exec.Cmd {
	return t.process(append([]string{t.binary}, args...)...)
}

func (t *trial) process(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "AICPLAN_LOCK_DIR="+filepath.Join(t.dir, ".locks"), "TMPDIR="+filepath.Join(t.home, "tmp"))
	cmd.Env = append(cmd.Env, t.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

var crashed = regexp.MustCompile(`(?m)^(panic: |fatal error: |goroutine \d+ \[|runtime: goroutine stack exceeds)|internal error`)

// running is a command that goes on.
type running struct {
	*trial
	cmd  *exec.Cmd
	out  output // of both streams, or of the first where err is used
	err  output
	done chan struct{}
	code int

	waits bool                   // it is a server, which does nothing unasked
	hung  atomic.Pointer[string] // how, where it did
}

// output is what a command printed so far.
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

// start begins a command of aicplan; wait waits for it.
func (t *trial) start(args ...string) *running {
	r := &running{trial: t, cmd: t.command(args...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	return r.begin()
}

// serve begins one that goes on until it is told to end.
func (t *trial) serve(args ...string) *running {
	r := &running{trial: t, cmd: t.command(args...), waits: true}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	return r.begin()
}

// launch begins a command whose two streams are kept apart.
func (t *trial) launch(cmd *exec.Cmd) *running {
	r := &running{trial: t, cmd: cmd}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	return r.begin()
}

// startShell runs a line of the shell whose $0 is aicplan.
func (t *trial) startShell(line string) *running {
	r := &running{trial: t, cmd: t.process("sh", "-c", line, t.binary)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	return r.begin()
}

func (r *running) begin() *running {
	r.done = make(chan struct{})
	if err := r.cmd.Start(); err != nil {
		r.wrong("%v", err)
		r.code = -1
		close(r.done)
		return r
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait()
		r.code = r.cmd.ProcessState.ExitCode()
	}()
	if !r.waits {
		go r.watch()
	}
	return r
}

// wait returns the exit code; -1 where a signal ended it.
func (r *running) wait() int {
	<-r.done
	if how := r.hung.Load(); how != nil {
		r.wrong("%s hangs: %s", strings.Join(r.cmd.Args, " "), *how)
	}
	return r.code
}

// looks is how often a command that takes long is looked at while patience
// passes once more.
const looks = 4

// watch waits for the command and kills it when it hangs. Time alone does not
// show that: the machine may be slow, or busy with others. A command hangs when
// it has taken long and its processes do nothing, or when they do work without
// an end.
func (r *running) watch() {
	patience := r.patience()
	select {
	case <-r.done:
		return
	case <-time.After(patience):
	}
	spent, _ := r.activity()
	for n := 1; ; n++ {
		select {
		case <-r.done:
			return
		case <-time.After(patience / looks):
		}
		now, waits := r.activity()
		how := ""
		switch {
		case now > 5*patience:
			how = fmt.Sprintf("%s of CPU time", now)
		case n > looks*20:
			how = fmt.Sprintf("no end within %s", 20*patience)
		case !waits && now-spent < patience/looks/200:
			how = fmt.Sprintf("nothing was done for %s", patience/looks)
		}
		if spent = now; how != "" {
			r.hung.Store(&how)
			_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
			return
		}
	}
}

// tick is the unit of times in /proc/PID/stat, whatever the kernel's own is.
const tick = 10 * time.Millisecond

// activity is the CPU time of the command's process group, and whether a process
// of it waits for a disk, or is stopped.
func (r *running) activity() (cpu time.Duration, waits bool) {
	group := strconv.Itoa(r.cmd.Process.Pid)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		// The name in parentheses may hold anything; state, parent and group follow.
		_, rest, _ := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), " ")
		words := strings.Fields(rest)
		if len(words) < 15 || words[2] != group {
			continue
		}
		waits = waits || words[0] == "D" || words[0] == "T"
		for _, w := range words[11:15] {
			n, _ := strconv.Atoi(w)
			cpu += time.Duration(n) * tick
		}
	}
	return cpu, waits
}

// after sleeps until a random moment of the run, or until it is over.
func (r *running) after() {
	at := time.Duration(r.random.Float64() * 1.1 * float64(r.scene.quiet))
	select {
	case <-r.done:
	case <-time.After(at):
	}
}

// afterJournal waits until the journal has a random share of its bytes.
func (r *running) afterJournal() {
	r.journalled(int64(r.random.Float64() * 1.02 * float64(r.scene.journal)))
}

// writing waits until the run measures.
func (r *running) writing() { r.journalled(1) }

// journalled waits until the journal has so many bytes, or the run is over.
func (r *running) journalled(at int64) {
	r.until(func() bool { return r.journalSize() >= at })
}

// until waits for something, or until the run is over, and says whether it came.
func (r *running) until(come func() bool) bool { return r.every(300*time.Microsecond, come) }

// polled is until for what costs more to look at.
func (r *running) polled(come func() bool) bool { return r.every(500*time.Millisecond, come) }

func (r *running) every(pause time.Duration, come func() bool) bool {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !come() {
		select {
		case <-r.done:
			return come()
		case <-tick.C:
		}
	}
	return true
}

// over says whether the command has ended.
func (r *running) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// signal sends to the whole group, or to the engine alone.
func (r *running) signal(sig syscall.Signal, group bool) {
	if r.cmd.Process == nil {
		return // it did not start
	}
	pid := r.cmd.Process.Pid
	if group {
		pid = -pid
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		r.wrong("%v", err)
	}
}

// workers are the engine's children.
func (r *running) workers() []int {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(r.cmd.Process.Pid)).Output()
	if err != nil {
		return nil // none, or the run is over
	}
	var pids []int
	for word := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// status is one command from its begin to its end, and the exit code of its
// process. It is a fault when it crashes.
func (t *trial) status(args ...string) (string, int) {
	return t.sane(t.start(args...))
}

// sane waits for a command that nobody disturbs.
func (t *trial) sane(r *running) (string, int) {
	code := r.wait()
	out := r.out.String() + r.err.String()
	if at := crashed.FindString(out); at != "" {
		t.wrong("aicplan %s says %q", strings.Join(r.cmd.Args[1:], " "), at)
	}
	return out, code
}

// tool runs a program of the system.
func (t *trial) tool(args ...string) (string, error) {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return string(out), err
}
