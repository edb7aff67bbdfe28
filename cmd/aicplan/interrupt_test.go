package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicplan/engine/run"
)

// held returns killPlan with cases that wait for a file, except for the first ones.
func held(until string) string {
	return strings.Replace(killPlan, `op = "synthetic"`, fmt.Sprintf(`op = "synthetic"
  derive "wait_for" { value = a < 2 ? "" : %q }`, until), 1)
}

// TestSecondApplyAndInterrupt starts an apply, tries another at the same time, and then sends Ctrl-C.
func TestSecondApplyAndInterrupt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The run must last until a second apply and a plan have ended.
	goOn := filepath.Join(dir, "go")
	if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), []byte(held(goOn)), 0o644); err != nil {
		t.Fatal(err)
	}
	v := newVictim(t, filepath.Join(binDir(t), "aicplan"), dir, "held")
	first := v.command("apply", "--json", "--out-dir", v.out, "plan.hcl")
	events, said := started(t, first)
	waitFor(t, events, "stage_start")

	second := v.apply()
	text, _ := second.CombinedOutput()
	if code := second.ProcessState.ExitCode(); code != run.ExitLocked {
		t.Errorf("the second apply ended with %d, want %d:\n%s", code, run.ExitLocked, text)
	}
	if !bytes.Contains(text, []byte(fmt.Sprintf("pid %d", first.Process.Pid))) {
		t.Errorf("the second apply does not name pid %d:\n%s", first.Process.Pid, text)
	}
	if plan, err := v.command("plan", "plan.hcl").CombinedOutput(); err != nil {
		t.Errorf("planning during an apply: %v\n%s", err, plan)
	}

	waitFor(t, events, "sample")
	interrupt(t, first, syscall.SIGINT, said)
	if err := os.WriteFile(goOn, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for events.Scan() {
	}
	_ = first.Wait()
	if code := first.ProcessState.ExitCode(); code != run.ExitInterrupted {
		t.Errorf("Ctrl-C ended the apply with %d, want %d", code, run.ExitInterrupted)
	}
	kept := v.acknowledged(t)
	if kept == 0 || kept == killCases {
		t.Fatalf("%d of %d cases were measured by the interrupt, want some", kept, killCases)
	}
	third := v.command("apply", "--out-dir", v.out, "--limit", fmt.Sprint(kept), "plan.hcl")
	text, _ = third.CombinedOutput()
	if bytes.Contains(text, []byte("locked")) {
		t.Errorf("the interrupted apply left its lock:\n%s", text)
	}
	if _, reused := counts(t, text); reused != kept && !bytes.Contains(text, []byte("nothing to do")) {
		t.Errorf("%d cases were kept, the next run reused %d:\n%s", kept, reused, text)
	}
}

// TestEndOfTheSession checks that an apply whose terminal is closed ends as interrupted, and that one
// under nohup continues.
func TestEndOfTheSession(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		// If the tests run under nohup, their child processes ignore SIGHUP too, and the test would wait
		// forever.
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGHUP)
		t.Cleanup(func() { signal.Stop(heard) })
	}
	bin := filepath.Join(binDir(t), "aicplan")
	for _, c := range []struct {
		name string
		code int
	}{{"session", run.ExitInterrupted}, {"nohup", run.ExitOK}} {
		dir := t.TempDir()
		goOn := filepath.Join(dir, "go")
		if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), []byte(held(goOn)), 0o644); err != nil {
			t.Fatal(err)
		}
		v := newVictim(t, bin, dir, c.name)
		cmd := v.command("apply", "--json", "--out-dir", v.out, "plan.hcl")
		if c.name == "nohup" {
			cmd = exec.Command("/bin/sh", append([]string{"-c", `trap "" HUP; exec "$@"`, "sh"}, cmd.Args...)...)
			cmd.Dir, cmd.Env = dir, v.command().Env
		}
		events, said := started(t, cmd)
		waitFor(t, events, "stage_start")
		if c.code == run.ExitInterrupted {
			interrupt(t, cmd, syscall.SIGHUP, said)
		} else if err := syscall.Kill(cmd.Process.Pid, syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(goOn, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for events.Scan() {
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: SIGHUP ended the apply with %d, want %d", c.name, code, c.code)
		}
	}
}

// TestInterruptWhilePlanning checks that Ctrl-C ends every planning command immediately, although the
// evaluation of an expression cannot be cancelled.
func TestInterruptWhilePlanning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := `locals {
  l = range(20000)
  x = length([for a in range(1, 20000) : contains(local.l, -a)])
}
output "x" { value = local.x }
`
	if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), []byte(long), 0o644); err != nil {
		t.Fatal(err)
	}
	v := newVictim(t, filepath.Join(binDir(t), "aicplan"), dir, "long")
	for _, verb := range []string{"apply", "plan", "validate"} {
		cmd := v.command(verb, "plan.hcl")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		tick := time.NewTicker(5 * time.Millisecond)
		for busy := false; !busy; {
			select {
			case err := <-ended:
				t.Fatalf("%s ended by itself: %v", verb, err)
			case <-tick.C:
				busy = processorTicks(t, cmd.Process.Pid) > 20 // planning has started by then
			}
		}
		tick.Stop()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		<-ended
		if code := cmd.ProcessState.ExitCode(); code != run.ExitInterrupted {
			t.Errorf("Ctrl-C ended %s with %d, want %d", verb, code, run.ExitInterrupted)
		}
	}
}

// processorTicks returns the processor time of a process in hundredths of a second.
func processorTicks(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("no /proc here: ", err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	ticks, err := strconv.Atoi(fields[11])
	if err != nil {
		t.Fatal(err)
	}
	return ticks
}

// started starts a command and returns its events and its error output.
func started(t *testing.T, cmd *exec.Cmd) (events, said *bufio.Scanner) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(out), bufio.NewScanner(errs)
}

// interrupt signals a run and returns when the run has printed that it is stopping. The run then
// finishes the cases in flight.
func interrupt(t *testing.T, cmd *exec.Cmd, signal syscall.Signal, said *bufio.Scanner) {
	t.Helper()
	if err := syscall.Kill(cmd.Process.Pid, signal); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for said.Scan() {
		fmt.Fprintln(&all, said.Text())
		if strings.HasPrefix(said.Text(), "Stopping: ") {
			return
		}
	}
	t.Fatalf("the run did not say that it stops:\n%s", all.String())
}

// waitFor reads events up to the first of a type.
func waitFor(t *testing.T, events *bufio.Scanner, typ string) {
	t.Helper()
	for events.Scan() {
		var e struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(events.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, events.Text())
		}
		if e.Type == typ {
			return
		}
	}
	t.Fatalf("the run ended without %s", typ)
}
