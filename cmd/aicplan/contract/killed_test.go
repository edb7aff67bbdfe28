package contract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// longPlan measures an op in Python with fixed results, which writes a line to
// the file "calls" for each case that it runs.
const longPlan = `
runtime "py" {
  kind      = "python"
  framework = "python"
  path      = ["ops.py"]
  workers   = 2
}
grid "s" {
  op = "steps"
  axis "a" { values = range(12) }
  axis "b" { values = range(20) }
}
collect "s" {
  grid    = grid.s
  runtime = runtime.py
}
gate "s" {
  input = collect.s
  check "coverage" { min = 1.0 }
  check "duplicates" { max = 0 }
}
export "s" {
  input = gate.s
  file  = "s_perf.txt"
}
`

const stepsOp = `
import os
import time

def fill(path):
    f = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(f, bytes(4096)):
            pass
    except OSError:
        os.close(f)


def steps(a, b, bench):
    time.sleep(0.001)
    if a == 5 and b == 0 and os.environ.get("FILL"):
        fill(os.environ["FILL"])
    if a == 5 and b == 0 and os.environ.get("HOLD"):
        while not os.path.exists(os.environ["HOLD"]):
            time.sleep(0.005)
    with open(os.environ["CALLS"], "a") as f:
        f.write("%d,%d\n" % (a, b))
    return {"latency": 1.0 + a * 0.25 + b * 0.125, "kernel_source": "none"}
`

const longCases = 240

// newSteps is a folder with longPlan. It skips the test if there is no python3.
func newSteps(t *testing.T) *folder {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	f := newFolder(t, "plan.hcl", longPlan, "ops.py", stepsOp, "calls", "")
	f.env = append(f.env, "CALLS="+f.path("calls"))
	return f
}

// calls are the cases that the op ran, in this order.
func (f *folder) calls() []string { return strings.Fields(string(f.read("calls"))) }

// undisturbed applies the plan once and returns the bytes of its export.
var undisturbed = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "aicplan-contract-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"plan.hcl": longPlan, "ops.py": stepsOp} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	python, err := quickPython()
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, python: python, env: []string{"CALLS=" + filepath.Join(dir, "calls")}}
	if out, err := f.command(context.Background(), "apply", "plan.hcl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	data, err := os.ReadFile(f.path("out", "s_perf.txt"))
	if n := bytes.Count(data, []byte("\n")); err == nil && n != longCases+1 {
		err = fmt.Errorf("%d lines in the export, want %d", n, longCases+1)
	}
	return data, err
})

// moment returns whether it is time to disturb a run: an event came, or another
// case was run.
type moment func(event map[string]any, calls int) bool

// after is the moment at which so many cases have been run.
func after(n int) moment {
	return func(_ map[string]any, calls int) bool { return calls >= n }
}

// at is the moment of an event; stage is empty for events of the whole run.
func at(kind, stage string) moment {
	return func(e map[string]any, _ int) bool {
		of, _ := e["stage"].(string)
		return e["type"] == kind && of == stage
	}
}

// disturb starts an apply, sends it a signal at a moment and returns its exit
// code, and how many cases it had reported as done by then. With group, the
// signal goes to its workers too.
func (f *folder) disturb(signal syscall.Signal, group bool, when moment) (code, done int) {
	f.t.Helper()
	cmd := f.command(f.t.Context(), "apply", "--json", "plan.hcl")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	events := make(chan map[string]any)
	go func() {
		defer close(events)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e map[string]any
			if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line may be cut
				events <- e
			}
		}
	}()

	sent := false
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for open := true; open; {
		var e map[string]any
		select {
		case e, open = <-events:
		case <-look.C:
		}
		if n, ok := e["done"].(float64); ok && !sent && e["type"] == "stage_progress" {
			failed, _ := e["failed"].(float64)
			done = int(n - failed)
		}
		if sent || !when(e, len(f.calls())) {
			continue
		}
		sent = true
		target := cmd.Process.Pid
		if group {
			target = -target
		}
		if err := syscall.Kill(target, signal); err != nil {
			f.t.Error(err)
		}
	}
	err = cmd.Wait()
	if !sent {
		f.t.Fatalf("the run ended before the moment came: %v", err)
	}
	return cmd.ProcessState.ExitCode(), done
}

// kept is how many cases the next run would not measure again.
func (f *folder) kept() int {
	f.t.Helper()
	var p planned
	f.json(&p, 0, "plan", "--json", "plan.hcl")
	for _, s := range p.Stages {
		if s.Address != "collect.s" {
			continue
		}
		if s.Cases == nil && s.Action == "reuse" {
			return longCases
		}
		if s.Cases == nil {
			f.t.Fatal("the plan has no counts of collect.s")
		}
		return int(s.Cases.Reuse)
	}
	f.t.Fatal("the plan has no collect.s")
	return 0
}

// resume applies the plan again. It must measure what was not kept and nothing
// else, and end with the export of an undisturbed run.
func (f *folder) resume(done int) {
	f.t.Helper()
	before := f.calls()
	kept := f.kept()

	s := f.apply(0, "plan.hcl").stages["collect.s"]
	calls := f.calls()
	reused := int(s.Counts.Reused)
	if s.Reused {
		reused = longCases
	}
	// The plan of a runtime that was killed before its version was recorded cannot
	// promise what will be reused.
	if reused < max(kept, done) {
		f.t.Errorf("%d cases were reported as done and the plan promised %d, but %d were reused", done, kept, reused)
	}
	if n := len(calls) - len(before); n != longCases-reused {
		f.t.Errorf("%d cases were reused, and the next run measured %d of %d", reused, n, longCases)
	}
	if s.Counts.Rows != longCases {
		f.t.Errorf("%d rows, want %d", s.Counts.Rows, longCases)
	}
	again := map[string]bool{}
	for _, c := range calls[len(before):] {
		if again[c] {
			f.t.Errorf("case %s was measured twice by one run", c)
		}
		again[c] = true
	}
	want, err := undisturbed()
	if err != nil {
		f.t.Fatal(err)
	}
	if got := f.read("out/s_perf.txt"); !bytes.Equal(got, want) {
		f.t.Error("the export differs from that of an undisturbed run")
	}

	f.apply(0, "plan.hcl")
	if n := len(f.calls()); n != len(calls) {
		f.t.Errorf("a run with nothing to do measured %d cases", n-len(calls))
	}
}

// TestKilled kills an apply at several moments. The next one goes on where it
// was.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		when   moment
		group  bool
		always bool
	}{
		{"at the start", at("run_start", ""), true, true},
		{"first case", after(1), true, false},
		{"some cases", after(41), true, true},
		{"half", after(120), true, false},
		{"half, without its workers", after(120), false, true},
		{"last case", after(longCases), true, false},
		{"collect ends", at("stage_end", "collect.s"), true, false},
		{"export starts", at("stage_start", "export.s"), true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if !tc.always && os.Getenv(allVariable) == "" {
				t.Skip("runs in make test-all")
			}
			f := newSteps(t)
			_, done := f.disturb(syscall.SIGKILL, tc.group, tc.when)
			f.resume(done)
		})
	}
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		f := newSteps(t)
		f.disturb(syscall.SIGKILL, true, after(100))
		_, done := f.disturb(syscall.SIGKILL, true, after(180))
		f.resume(done)
	})
}

// TestAcknowledgedSurvives holds a run in its middle until all cases before are
// acknowledged, and kills it then: they are all kept.
func TestAcknowledgedSurvives(t *testing.T) {
	t.Parallel()
	const held = 100 // cases before the one that waits
	f := newSteps(t)
	f.write("plan.hcl", strings.Replace(longPlan, "workers   = 2", "workers   = 1", 1))
	holding := &folder{t: t, dir: f.dir, env: append(slices.Clone(f.env), "HOLD="+f.path("go"))}
	cmd := holding.command(t.Context(), "apply", "plan.hcl")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	run, kept := 0, 0
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d cases were run, and %d are kept; want %d", run, kept, held)
		}
	})
	waitFor(t, "all cases before the one that waits are kept", func() bool {
		run, kept = len(f.calls()), f.kept()
		return run == held && kept == held
	})
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the run ended before it was killed")
	}
	f.resume(held)
}

// TestInterrupted interrupts an apply: exit code 130, and what was measured is
// kept.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	f := newSteps(t)
	code, done := f.disturb(syscall.SIGINT, false, after(100))
	if code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if _, err := os.Stat(f.path("out", "s_perf.txt")); err == nil {
		t.Error("an interrupted run has exported partial data")
	}
	if n := len(f.calls()); f.kept() != n {
		t.Errorf("%d cases were run before the end, and %d are kept", n, f.kept())
	}
	f.resume(done)
}

// TestFullDisk fills the file system of the state folder while a run measures,
// and applies again when it has room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	f := newSteps(t)
	state := f.path(".aicplan")
	mountSmall(t, state, "4m")
	filler := filepath.Join(state, "runs", "filler")
	full := &folder{t: t, dir: f.dir, env: append(slices.Clone(f.env), "FILL="+filler)}
	full.expect(1, "apply", "plan.hcl")
	if found, err := filepath.Glob(f.path("out", "*")); err != nil || len(found) > 0 {
		t.Errorf("a run without room exported %v, %v", found, err)
	}
	if n := len(f.calls()); n < 100 {
		t.Errorf("%d cases were run before the disk was full, want at least 100", n)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	f.resume(0)
}

// mountSmall mounts a file system of a size on a new folder. It skips the test if it cannot.
func mountSmall(t *testing.T, dir, size string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root on Linux")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no file system can be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
}

// TestFullDiskLosesNoAttachments fills the file system of the state folder with attachments, at the worker and at the
// engine, and applies again when it has room.
func TestFullDiskLosesNoAttachments(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"5m", "8m", "12m"} {
		f := newFolder(t, "plan.hcl", `
runtime "py" {
  kind      = "python"
  framework = "TRY"
  path      = ["op.py"]
  device    = "none"
}
grid "g" {
  op = "large"
  axis "a" { values = [1, 2, 3, 4] }
}
collect "g" {
  grid    = grid.g
  runtime = runtime.py
}
`, "op.py", `
def large(a, bench):
    bench.attach("large.bin", bytes([a]) * (3 << 20))
    return {"latency": 1.0, "kernel_source": "x"}
`)
		mountSmall(t, f.path(".aicplan"), size)
		f.expect(1, "apply", "plan.hcl")
		if out, err := exec.Command("mount", "-o", "remount,size=64m", f.path(".aicplan")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		f.expect(0, "apply", "plan.hcl")
		if n := bytes.Count(f.expect(0, "show", "collect.g").stdout, []byte("large.bin")); n != 4 {
			t.Errorf("%s: %d of 4 rows have their attachment", size, n)
		}
	}
}
