package checkpoint

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The test binary starts itself with this variable to run the process that is killed. The value
// contains the action and the state folder.
const childEnv = "AICPLAN_TEST_CHILD"

func TestMain(m *testing.M) {
	if what, dir, ok := strings.Cut(os.Getenv(childEnv), " "); ok {
		if err := child(what, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(what, dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	switch what {
	case "append":
		return appendForever(s)
	case "lock":
		if _, err := s.Lock(LockInfo{Command: "aicplan apply a.hcl"}); err != nil {
			return err
		}
		fmt.Println("locked")
		_, err := io.Copy(io.Discard, os.Stdin) // until the parent ends it
		return err
	}
	return fmt.Errorf("what is %q", what)
}

const killCases = 20_000

func killPayload(id string) string { return "payload of " + id + strings.Repeat(".", len(id)*7%300) }

// appendForever measures the cases that are not in the journal with eight goroutines and prints the id
// of every acknowledged case.
func appendForever(s *Store) error {
	j, err := s.Journal(gemm)
	if err != nil {
		return err
	}
	next := make(chan string)
	go func() {
		defer close(next)
		for i := range killCases {
			id := fmt.Sprintf("case%05d", i)
			if _, ok := j.Has(id); !ok {
				next <- id
			}
		}
	}()
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		wg.Go(func() {
			for id := range next {
				if err := j.Append(Entry{ID: id, Kind: Measured, Payload: []byte(killPayload(id))}); err != nil {
					errs <- err
					return
				}
				fmt.Println(id) // one write(2): a line is whole or absent
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return s.Close()
	}
}

func startChild(t *testing.T, what, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what+" "+dir)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // closes when the test ends
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// A process is killed at 20 random moments while it appends, and restarted. Each time, every
// acknowledged case is in the journal, and no case is written twice.
func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	acked := map[string]bool{}
	for round := range 20 {
		cmd, lines := startChild(t, "append", dir)
		stop := rnd.IntN(600)
		for n := 0; lines.Scan(); n++ {
			acked[lines.Text()] = true
			if n == stop {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		err := cmd.Wait()
		if err == nil {
			t.Fatalf("round %d: the child finished before it was killed", round)
		}
		s := open(t, dir, Options{Warn: func(m string) { t.Errorf("round %d: %s", round, m) }})
		j := journal(t, s)
		read, ids := 0, slices.Collect(maps.Keys(acked))
		err = j.Read(ids, func(at int, e Entry) error {
			if read++; e.ID != ids[at] || string(e.Payload) != killPayload(ids[at]) {
				t.Errorf("round %d: %s was acknowledged and is %s, %q", round, ids[at], e.ID, e.Payload)
			}
			return nil
		})
		if err != nil || read != len(ids) {
			t.Fatalf("round %d: %d of %d acknowledged cases are in the journal, %v", round, read, len(ids), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, Options{})
	j := journal(t, s)
	frames := map[string]int{}
	paths, err := segmentPaths(j.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if _, err := readSegment(path, 0, func(e Entry, _ int64, _ int) error {
			if frames[e.ID]++; frames[e.ID] > 1 {
				t.Errorf("%s was written twice", e.ID)
			}
			if string(e.Payload) != killPayload(e.ID) {
				t.Errorf("%s has the payload %q", e.ID, e.Payload)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(acked) == 0 || j.Len() < len(acked) {
		t.Errorf("%d acknowledged, %d in the journal", len(acked), j.Len())
	}
	t.Logf("%d acknowledged, %d in the journal, %d segments", len(acked), j.Len(), len(paths))
}

func TestLockOfAKilledProcessIsTakenOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	cmd, lines := startChild(t, "lock", dir)
	if !lines.Scan() || lines.Text() != "locked" {
		t.Fatalf("the child did not lock: %q", lines.Text())
	}
	s := open(t, dir, Options{})
	_, err := s.Lock(LockInfo{Command: "second"})
	wantLocked(t, err, cmd.Process.Pid, "aicplan apply a.hcl")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child was not killed")
	}
	lock, err := s.Lock(LockInfo{Command: "third"})
	if err != nil {
		t.Fatalf("the lock of a dead process was not taken over: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}
