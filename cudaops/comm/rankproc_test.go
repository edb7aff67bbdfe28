//go:build linux

package comm

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/testutil"
)

// fakeRankVerb makes the test binary a rank's process on a fake node.
const fakeRankVerb = "fake-rank"

func fakeRankMain() int {
	_, node := fakeNode(1)
	die := func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	err := serveRank(func() (*Node, error) { return node, nil }, os.NewFile(3, "orders"), os.NewFile(4, "replies"), die, func() { os.Exit(0) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var one = []driver.Device{0}

// realProcesses returns a crew with one rank in a separate process.
func realProcesses(t *testing.T, args ...string) *crew {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := processCrew(func(int) (*rankPipes, error) { return spawnRank(exec.Command(exe, args...)) }, one, deadline)
	t.Cleanup(func() { c.close(t.Context()) })
	return c
}

// A rank in a process joins, computes and leaves. Then an injected fault kills it and the next one replaces
// it.
func TestRankInAProcess(t *testing.T) {
	c := realProcesses(t, fakeRankVerb)
	base := task{Op: AllReduce, Type: dataTypes["half"], Ranks: 1, Elements: 64}
	use := func() error {
		if err := c.reserve(t.Context(), task{Ranks: 1, Send: 128, Recv: 128}); err != nil {
			return err
		}
		if err := c.join(t.Context(), 1); err != nil {
			return err
		}
		v := base
		v.Kind = taskVerify
		reps, err := c.do(t.Context(), v)
		if err == nil && (reps[0].Checked != 64 || reps[0].Wrong != 0) {
			t.Errorf("report: %+v", reps[0])
		}
		return err
	}
	if err := use(); err != nil {
		t.Fatal(err)
	}
	bad := base
	bad.Kind, bad.Fault = taskVerify, FaultDie
	_, err := c.do(t.Context(), bad)
	if err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Fatalf("a rank that kills itself: %v", err)
	}
	if f := worker.FailureOf(failureOf(err, false)); f.Exception != "RankDied" || f.Fatal {
		t.Errorf("failure: %+v", f)
	}
	if err := use(); err != nil {
		t.Fatalf("after the death of its predecessor: %v", err)
	}
}

func TestProcessThatIsNoRank(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"exits":   "#!/bin/sh\nexit 7\n",
		"garbage": "#!/bin/sh\necho 'hello, world' >&4\nexec sleep 100\n",
	} {
		path := filepath.Join(dir, name)
		testutil.WriteProgram(t, path, script)
	}
	for name, text := range map[string]string{"exits": "exit status 7", "garbage": `"hello, world"`} {
		c := processCrew(func(int) (*rankPipes, error) { return spawnRank(exec.Command(filepath.Join(dir, name))) }, one, deadline)
		_, err := c.do(t.Context(), task{Kind: taskID, Ranks: 1})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", name, err, text)
		}
	}
}

// A rank that accepts orders but never replies is given up in bounded time, and its process is killed.
func TestRankThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		killed := make(chan struct{})
		c := processCrew(func(int) (*rankPipes, error) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			go func() {
				lines := newLines(inR)
				for n := 0; lines.Scan(); n++ {
					if n == 0 {
						if _, err := io.WriteString(outW, "{}\n"); err != nil {
							return
						}
					}
				}
			}()
			return &rankPipes{orders: inW, replies: outR, reaped: func() error { return nil }, kill: func() {
				outW.Close()
				close(killed)
			}}, nil
		}, one, 3)
		began := time.Now()
		_, err := c.do(t.Context(), task{Kind: taskID, Ranks: 1})
		if err == nil || !strings.Contains(err.Error(), "could not be released") {
			t.Fatalf("got %v", err)
		}
		// 3 s plus the patience, patience to release, and five times that to rescue.
		if took := time.Since(began); took > 3*time.Second+8*c.patience {
			t.Errorf("given up after %v", took)
		}
		if f := worker.FailureOf(failureOf(err, false)); f.Class != worker.ClassTimeout || f.Fatal {
			t.Errorf("failure: %+v", f)
		}
		if f := worker.FailureOf(failureOf(err, true)); !f.Fatal {
			t.Error("a thread that cannot be released must cost the process")
		}
		<-killed
	})
}

func TestRankThatNeverStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		killed := make(chan struct{})
		c := processCrew(func(int) (*rankPipes, error) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			go func() { _, _ = io.Copy(io.Discard, inR) }()
			return &rankPipes{orders: inW, replies: outR, reaped: func() error { return nil }, kill: func() {
				outW.Close()
				close(killed)
			}}, nil
		}, one, 3)
		_, err := c.do(t.Context(), task{Kind: taskID, Ranks: 1})
		if err == nil || !strings.Contains(err.Error(), "was not ready within 1m0s") {
			t.Fatalf("got %v", err)
		}
		<-killed
	})
}
