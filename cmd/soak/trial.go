package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cases is how many the plan has.
const cases = 80

// thePlan measures cases whose rows depend on nothing but the case, so that any
// two runs must export the same bytes.
const thePlan = `
variable "faults" {
  type    = list(string)
  default = ["none"]
}
variable "size" {
  type    = number
  default = 40
}
runtime "cpu" {
  kind      = "cpu"
  framework = "TRY"
  workers   = 2
  synthetic = true
}
grid "g" {
  op = "synthetic"
  axis "a" { values = range(var.size) }
  axis "b" { values = range(2) }
  axis "delay_ms" { values = [4] }
  axis "fault" { values = var.faults }
}
collect "g" {
  grid    = grid.g
  runtime = runtime.cpu
}
dedupe "g" {
  input = collect.g
}
gate "g" {
  input = dedupe.g
  check "coverage" { min = 0.5 }
  check "duplicates" { max = 0 }
}
export "csv" {
  input = gate.g
  file  = "g_perf.txt"
}
export "parquet" {
  input  = gate.g
  file   = "g_perf.parquet"
  format = "parquet"
}
report "g" {
  title  = "soak"
  inputs = gate.g
}
`

// patience is how long one command may take. What takes longer hangs.
const patience = 90 * time.Second

// bench is what trials share.
type bench struct {
	binary, home string
	want         string        // digest of the exports of an undisturbed run
	quiet        time.Duration // how long that took
	journal      int64         // bytes of its journal
}

func newBench(binary, home string) (*bench, error) {
	b := &bench{binary: binary, home: home}
	t := b.trial("quiet", rand.New(rand.NewPCG(0, 0)))
	begin := time.Now()
	out, code := t.status("apply", "plan.hcl")
	if b.quiet = time.Since(begin); code != 0 {
		return nil, fmt.Errorf("an undisturbed apply ends with %d:\n%s", code, out)
	}
	b.want, b.journal = t.exports(), t.journalSize()
	if n := t.acknowledged(); n != cases || b.want == "" {
		return nil, fmt.Errorf("an undisturbed apply has %d rows, want %d", n, cases)
	}
	return b, nil
}

// trial is one fault in folders of its own, and what came of it.
type trial struct {
	*bench
	dir    string
	random *rand.Rand
	bad    []string

	acked, lost int
	recovery    time.Duration
	sameBytes   bool
	note        string
}

func (b *bench) trial(name string, random *rand.Rand) *trial {
	t := &trial{bench: b, dir: filepath.Join(b.home, name), random: random}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		panic(err)
	}
	t.write("plan.hcl", thePlan)
	return t
}

func (t *trial) write(name, text string) {
	if err := os.WriteFile(filepath.Join(t.dir, name), []byte(text), 0o644); err != nil {
		panic(err)
	}
}

func (t *trial) wrong(format string, args ...any) {
	t.bad = append(t.bad, fmt.Sprintf(format, args...))
}

func (t *trial) survived() bool { return len(t.bad) == 0 }

func (t *trial) troubles() string { return strings.Join(t.bad, "; ") }

func (t *trial) state() string { return filepath.Join(t.dir, ".aicplan") }

// command is aicplan in the trial's folder and in a process group of its own.
func (t *trial) command(ctx context.Context, args ...string) *exec.Cmd {
	return t.process(ctx, append([]string{t.binary}, args...)...)
}

func (t *trial) process(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "AICPLAN_LOCK_DIR="+filepath.Join(t.dir, ".locks"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

var crashed = regexp.MustCompile(`(?m)^(panic: |fatal error: |goroutine \d+ \[|runtime: goroutine stack exceeds)|internal error`)

// ended looks at the output of a command that nobody disturbed.
func (t *trial) ended(ctx context.Context, args []string, out string) string {
	if ctx.Err() != nil {
		t.wrong("aicplan %s hangs", strings.Join(args, " "))
	}
	if at := crashed.FindString(out); at != "" {
		t.wrong("aicplan %s says %q", strings.Join(args, " "), at)
	}
	return out
}

// start begins an apply; end waits for it.
func (t *trial) start(args ...string) *running {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r := &running{trial: t, cancel: cancel, ctx: ctx, done: make(chan struct{}), cmd: t.command(ctx, args...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	r.begin()
	return r
}

// running is a command that goes on.
type running struct {
	*trial
	cmd    *exec.Cmd
	ctx    context.Context
	cancel context.CancelFunc
	out    bytes.Buffer
	done   chan struct{}
	code   int
}

func (r *running) begin() {
	if err := r.cmd.Start(); err != nil {
		r.wrong("%v", err)
		close(r.done)
		return
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait()
		r.code = r.cmd.ProcessState.ExitCode()
	}()
}

// wait returns the exit code; -1 where a signal ended it.
func (r *running) wait() int {
	<-r.done
	if r.ctx.Err() != nil {
		r.wrong("an apply hangs")
	}
	r.cancel()
	return r.code
}

// after sleeps until a random moment of the run, or until it is over.
func (r *running) after() {
	at := time.Duration(r.random.Float64() * 1.1 * float64(r.quiet))
	select {
	case <-r.done:
	case <-time.After(at):
	}
}

// afterJournal waits until the journal has a random share of its bytes.
func (r *running) afterJournal() {
	r.journalled(int64(r.random.Float64() * 1.02 * float64(r.journal)))
}

// writing waits until the run measures.
func (r *running) writing() { r.journalled(1) }

// journalled waits until the journal has so many bytes, or the run is over.
func (r *running) journalled(at int64) {
	tick := time.NewTicker(300 * time.Microsecond)
	defer tick.Stop()
	for r.journalSize() < at {
		select {
		case <-r.done:
			return
		case <-tick.C:
		}
	}
}

// signal sends to the whole group, or to the engine alone.
func (r *running) signal(sig syscall.Signal, group bool) {
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
	for _, word := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// acknowledged is how many measured cases the journals have; -1 where that
// cannot be told.
func (t *trial) acknowledged() int {
	if _, err := os.Stat(t.state()); errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := t.command(ctx, "ckpt", "list", "-json").Output()
	if err != nil {
		return -1
	}
	var l struct{ Journals []struct{ Measured int } }
	if err := json.Unmarshal(out, &l); err != nil {
		return -1
	}
	n := 0
	for _, j := range l.Journals {
		n += j.Measured
	}
	return n
}

func (t *trial) journalSize() int64 {
	var n int64
	_ = filepath.WalkDir(filepath.Join(t.state(), "journal"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil // it is being written while we look
	})
	return n
}

// exports is the digest of the exported files; "" where one is missing.
func (t *trial) exports() string {
	sum := sha256.New()
	for _, name := range []string{"g_perf.txt", "g_perf.parquet"} {
		data, err := os.ReadFile(filepath.Join(t.dir, "out", name))
		if err != nil {
			return ""
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(data))
		sum.Write(data)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

var summary = regexp.MustCompile(`Apply: (\d+) measured, (\d+) reused`)

// recover runs the plan again after the fault until it is through, and holds
// what must hold: what was acknowledged is neither lost nor measured again, the
// exports are those of an undisturbed run and the state folder is whole.
// damaged says that files of the state were damaged: then rows may be lost, and
// the check of the state has to say so before.
func (t *trial) recover(damaged bool) {
	t.acked = t.acknowledged()
	begin := time.Now()
	told := 0
	if damaged {
		_, told = t.status("ckpt", "verify")
	}
	var codes []int
	for try := range 3 {
		out, code := t.status("apply", "plan.hcl")
		codes = append(codes, code)
		if m := summary.FindStringSubmatch(out); m != nil && try == 0 && t.acked >= 0 {
			measured, _ := strconv.Atoi(m[1])
			t.lost = max(0, t.acked-(cases-measured))
		}
		if code == 0 {
			break
		}
	}
	t.recovery = time.Since(begin)
	if codes[len(codes)-1] != 0 {
		t.wrong("apply ends with %v", codes)
	}
	if t.lost > 0 && (!damaged || told == 0) {
		t.wrong("%d acknowledged rows were measured again", t.lost)
	}
	if t.sameBytes = t.exports() == t.want; !t.sameBytes {
		t.wrong("the exports differ from those of an undisturbed run")
	}
	if damaged {
		// A journal that is gone comes back with the next run of its stage: the
		// stage's table has the rows until then.
		t.status("ckpt", "gc")
		if _, code := t.status("ckpt", "verify"); code != 0 {
			t.note += fmt.Sprintf(", then verify %d", code)
		}
		return
	}
	t.whole()
}

// whole holds that all rows are there and the state folder has no damage.
func (t *trial) whole() {
	if n := t.acknowledged(); n != cases {
		t.wrong("%d rows in the end, want %d", n, cases)
	}
	if out, code := t.status("ckpt", "verify"); code != 0 {
		t.wrong("ckpt verify ends with %d: %s", code, clip(out))
	}
}

// clip is the beginning of an output.
func clip(out string) string {
	out = strings.Join(strings.Fields(out), " ")
	if len(out) > 400 {
		out = out[:200] + " ... " + out[len(out)-200:]
	}
	return out
}

// status is one command from its begin to its end, and the exit code of its
// process.
func (t *trial) status(args ...string) (string, int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := t.command(ctx, args...)
	raw, _ := cmd.CombinedOutput()
	out := t.ended(ctx, args, string(raw))
	if cmd.ProcessState == nil {
		return out, -1
	}
	return out, cmd.ProcessState.ExitCode()
}

// files are the regular files below a folder of the trial, sorted.
func (t *trial) files(below ...string) []string {
	var out []string
	for _, name := range below {
		_ = filepath.WalkDir(filepath.Join(t.dir, name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				out = append(out, path)
			}
			return nil
		})
	}
	slices.Sort(out)
	return out
}

func (t *trial) read(name string) string {
	data, err := os.ReadFile(filepath.Join(t.dir, name))
	if err != nil {
		t.wrong("%v", err)
	}
	return string(data)
}

// startShell runs a line of the shell whose $0 is aicplan.
func (t *trial) startShell(line string) *running {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r := &running{trial: t, cancel: cancel, ctx: ctx, done: make(chan struct{}), cmd: t.process(ctx, "sh", "-c", line, t.binary)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	r.begin()
	return r
}

// tool runs a program of the system.
func (t *trial) tool(args ...string) (string, error) {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return string(out), err
}
