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
	pool := worker.NewPool(context.Background(),
		worker.PoolSpec{Slots: []worker.Slot{{Name: "w0", Device: -1, Spec: worker.Spec{
			Path: exe, Init: worker.Init{Kind: "cpu", Options: map[string]any{"synthetic": true}},
		}}}})
	hello, _, err := pool.Up(context.Background(), worker.Settings{}, 1, "")
	if err != nil {
		panic(err)
	}
	src := &list{}
	src.add(1, "hang", long)
	fmt.Println("worker", hello.Pid)
	_ = pool.Run(context.Background(), worker.Settings{}, src)
}

// gone waits for the end of a process.
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
