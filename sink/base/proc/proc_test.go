//go:build linux

package proc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicplan/sink/base/proc"
	"aicplan/sink/base/testutil"
)

func shell(ctx context.Context, script string) *exec.Cmd {
	return exec.CommandContext(ctx, "sh", "-c", script)
}

func TestOutputDoesNotWaitForDescendants(t *testing.T) {
	t.Parallel()
	for script, code := range map[string]int{"exit 3": 3, "exit 0": 0} {
		cmd := shell(t.Context(), "sleep 600 & printf 1.0; printf 'no disk' >&2; "+script)
		out, err := proc.Output(cmd)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the sleep
		if string(out) != "1.0" || (err != nil) != (code != 0) {
			t.Errorf("%s: %q, %v", script, out, err)
		}
		exit, ok := errors.AsType[*exec.ExitError](err)
		if code != 0 && (!ok || exit.ExitCode() != code || string(exit.Stderr) != "no disk") {
			t.Errorf("%s: %v", script, err)
		}
	}
	if _, err := proc.Output(exec.CommandContext(t.Context(), "/nowhere/python3")); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing program: %v", err)
	}
}

func TestRunIgnoresUnreadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := shell(t.Context(), "exec 3<&0; while test -d "+dir+"; do sleep 0.05; done >/dev/null 2>&1 & echo ready")
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	if out, err := proc.Output(cmd); string(out) != "ready\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// TestCancelledRunKillsItsGroup cancels a command whose child ignores SIGTERM.
func TestCancelledRunKillsItsGroup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pids := filepath.Join(t.TempDir(), "pids")
	cmd := shell(ctx, fmt.Sprintf("(trap '' TERM; echo $$ > %[1]s.new; mv %[1]s.new %[1]s; while :; do sleep 1; done) & "+
		"wait", pids))
	stopped := make(chan error)
	go func() { stopped <- proc.Run(cmd) }()
	awaitFile(t, pids)
	cancel()
	if err := <-stopped; err == nil {
		t.Error("a cancelled command reports success")
	}
	await(t, "the end of its session", func() bool { return len(proc.Session(cmd.Process.Pid)) == 0 })
}

// await waits until ok returns true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s was not seen", what)
		}
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	await(t, path, func() bool { _, err := os.Stat(path); return err == nil })
}

// TestStopFindsProcessesThatLeft stops a program with three descendants: one in its group, one that left
// its session, and one in its session that has no environment.
func TestStopFindsProcessesThatLeft(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := exec.Command("sh", "-c", "sleep 600 & setsid sleep 601 & env -i sleep 602 & touch "+ready+"; wait")
	tree, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	awaitFile(t, ready)
	await(t, "all members", func() bool {
		n := 0
		for _, pid := range tree.Members() {
			if strings.HasPrefix(proc.CommandLine(pid), "sleep 60") {
				n++
			}
		}
		return n == 3
	})

	got := tree.Stop(syscall.SIGTERM, 100*time.Millisecond)
	if tree.Exit() != "SIGTERM" || !got.Killed || len(got.Orphans) != 1 ||
		!strings.Contains(got.Orphans[0], "sleep 601") || len(got.Left) != 0 {
		t.Errorf("%+v", got)
	}
	if again := tree.Stop(syscall.SIGTERM, 0); !slices.Equal(again.Orphans, got.Orphans) {
		t.Errorf("the second call returns %+v", again)
	}
	if tree.Code() != -1 {
		t.Errorf("status %d", tree.Code())
	}
}

// TestKillFindsProcessesThatJustStarted kills trees whose program ends as soon as it has started a process
// that leaves its session, so the kernel may still be loading that one's program.
func TestKillFindsProcessesThatJustStarted(t *testing.T) {
	t.Parallel()
	for range testutil.Rounds(20, 100) {
		tree, err := proc.Start(exec.Command("setsid", "--fork", "sleep", "603"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if n := tree.Kill(); n > 0 {
				t.Errorf("%d processes were not found at first", n)
			}
		})
		<-tree.Done()
		tree.Kill()
		await(t, "the end of the processes", func() bool { return len(tree.Members()) == 0 })
	}
}

// TestTreesAreNested starts a tree within a tree: the outer one has the processes of both.
func TestTreesAreNested(t *testing.T) {
	t.Parallel()
	outer, err := proc.Start(exec.Command("sleep", "600"))
	if err == nil {
		t.Cleanup(func() { outer.Kill() })
	}
	if err != nil || len(outer.Members()) > 1 {
		t.Fatalf("%v, %v", outer.Members(), err)
	}
	awaitMark(t, outer.Pid)
	inner := exec.Command("sleep", "600")
	inner.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	inner.Env = append(os.Environ(), markOf(t, outer.Pid)+"/INNER")
	if err := inner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Process.Kill(); _ = inner.Wait() })
	awaitMark(t, inner.Process.Pid)
	if got := outer.Members(); !slices.Contains(got, inner.Process.Pid) {
		t.Errorf("%d is not among %v", inner.Process.Pid, got)
	}
	if proc.Marked(os.Getpid()) {
		t.Error("the process that started the tree is marked")
	}
}

// awaitMark waits until a started process has its mark. Its environment cannot be read while it executes
// its program.
func awaitMark(t *testing.T, pid int) {
	t.Helper()
	await(t, fmt.Sprintf("the mark of %d", pid), func() bool { return proc.Marked(pid) })
}

// markOf returns the variable of a process as "NAME=value".
func markOf(t *testing.T, pid int) string {
	t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	for kv := range strings.SplitSeq(string(environ), "\x00") {
		if strings.HasPrefix(kv, proc.Variable+"=") {
			return kv
		}
	}
	t.Fatal("the process has no mark")
	return ""
}

// TestKillOrphansSparesLivingStarters starts processes with the marks of a starter that has ended, of one
// in another namespace, and of this process.
func TestKillOrphansSparesLivingStarters(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	start := func(mark string) *exec.Cmd {
		// cat reads a pipe that stays open. The mark is beyond what one read returns.
		cmd := exec.Command("cat")
		cmd.Env = append(os.Environ(), "LONG="+strings.Repeat("x", 20000), proc.Variable+"="+mark)
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	wantKilled := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("the orphan ended with %v", err)
		}
	}
	here, _, _ := strings.Cut(proc.Starter(os.Getpid()), ":")

	elsewhere := start(fmt.Sprintf("1%s:%d:1/x", here, dead.Process.Pid))
	awaitMark(t, elsewhere.Process.Pid)

	// Every aicplan of the machine kills this one, so another test's may be first.
	orphan := start(fmt.Sprintf("%s:%d:1/x", here, dead.Process.Pid))
	ended := make(chan error, 1)
	go func() { ended <- orphan.Wait() }()
	await(t, "the end of the orphan", func() bool { proc.KillOrphans(); return len(ended) > 0 })
	wantKilled(<-ended)

	// No other program uses this namespace.
	ours := fmt.Sprintf("test%d", os.Getpid())
	orphan = start(fmt.Sprintf("%s:%d:1/x/y", ours, dead.Process.Pid))
	living := start(strings.Replace(proc.Starter(os.Getpid()), here, ours, 1) + "/x")
	awaitMark(t, orphan.Process.Pid)
	awaitMark(t, living.Process.Pid)
	if n := proc.KillOrphansOf(ours); n != 1 {
		t.Errorf("%d processes were killed", n)
	}
	wantKilled(orphan.Wait())
	if err := living.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of a living starter was killed: %v", err)
	}
	if err := elsewhere.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of another namespace was killed: %v", err)
	}
}

func TestSetCPUs(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // the thread ends with the goroutine
	all, err := proc.CPUs()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, want := range [][]int{all[len(all)-1:], all} {
		proc.SetCPUs(want)
		if got, err := proc.CPUs(); err != nil || !slices.Equal(got, want) {
			t.Errorf("on %v, want %v: %v", got, want, err)
		}
	}
}
