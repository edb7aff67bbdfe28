//go:build linux

package worker_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"aicplan/cudaops/worker"
)

// engineThatIsKilled runs a pool with a hanging case and prints the worker's
// process once it is up; its parent kills it then.
func engineThatIsKilled() {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	pool := worker.NewPool(context.Background(), worker.PoolSpec{Slots: []worker.Slot{{Name: "w0", Device: -1, Spec: worker.Spec{
		Path: exe, Init: worker.Init{Kind: "cpu", Options: map[string]any{"synthetic": true}},
	}}}})
	hello, err := pool.Up(context.Background(), worker.Settings{}, 1)
	if err != nil {
		panic(err)
	}
	src := &list{}
	src.add(1, "hang", long)
	fmt.Println("worker", hello.Pid)
	_ = pool.Run(context.Background(), worker.Settings{}, src)
}

// gone waits until a process has ended, as the kernel tells it.
func gone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			t.Fatalf("process %d lives on (%v)", pid, err)
		}
		return
	}
}

func TestWorkersDieWithTheEngine(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "TEST_ENGINE=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "worker ")))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	gone(t, pid)
}

func TestReapOrphansEndsThoseOfDeadEngines(t *testing.T) {
	// A process with the marker of an engine that is gone, one of an engine in
	// another process namespace, and one of this engine.
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	ns = strings.Trim(strings.TrimPrefix(ns, "pid:"), "[]")
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	start := func(marker string) *exec.Cmd {
		// cat reads a pipe that stays open: it lives until it is killed.
		cmd := exec.Command("cat")
		// The marker lies beyond what one read brings.
		cmd.Env = append(os.Environ(), "LONG="+strings.Repeat("x", 20000), worker.EnvMarker+"="+marker)
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	wantKilled := func(orphan *exec.Cmd) {
		t.Helper()
		if err := orphan.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("the orphan ended with %v", err)
		}
	}
	elsewhere := start(fmt.Sprintf("1%s:%d:1:w0:x", ns, dead.Process.Pid))
	// Every engine of the machine ends this one, and another test's may be first.
	orphan := start(fmt.Sprintf("%s:%d:1:w0:x", ns, dead.Process.Pid))
	worker.ReapOrphans()
	wantKilled(orphan)
	// Nobody else is in this namespace.
	ours := fmt.Sprintf("test%d", os.Getpid())
	orphan = start(fmt.Sprintf("%s:%d:1:w0:x", ours, dead.Process.Pid))
	living := start(fmt.Sprintf("%s:%d:%s:w0:x", ours, os.Getpid(), worker.StartTime(os.Getpid())))
	if n := worker.ReapOrphansOf(ours); n != 1 {
		t.Errorf("%d processes were ended", n)
	}
	wantKilled(orphan)
	if err := living.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of a living engine was ended: %v", err)
	}
	if err := elsewhere.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of another namespace was ended: %v", err)
	}
}
