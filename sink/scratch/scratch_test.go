package scratch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// folderHolder is where a process of the test makes a folder, which it keeps until it
// is killed.
const folderHolder = "SCRATCH_TEST_FOLDER"

func TestMain(m *testing.M) {
	if base := os.Getenv(folderHolder); base != "" {
		holdFolder(base)
		return
	}
	os.Exit(m.Run())
}

// holdFolder makes a folder, says where, and keeps it until its input ends.
func holdFolder(base string) {
	f, err := New(base, "try")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	fmt.Println(f.Path)
	_, _ = io.Copy(io.Discard, os.Stdin)
	f.Remove()
}

// TestFoldersOfKilledProcesses: who makes a folder removes those of processes that were
// killed, and no others.
func TestFoldersOfKilledProcesses(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	hold := func() (*exec.Cmd, string) {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), folderHolder+"="+base)
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return cmd, strings.TrimSpace(line)
	}
	killed, dead := hold()
	_, alive := hold()
	half := filepath.Join(base, "aicplan-try-half")
	foreign := filepath.Join(base, "aicplan-try-foreign")
	for _, path := range []string{filepath.Join(dead, "traces", "a"), half, filepath.Join(foreign, "data"), filepath.Join(base, "aicplan-1", "traces"), filepath.Join(base, "aicplan-other-1")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // killed
	mine, err := New(base, "try")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dead: false, half: false, alive: true, foreign: true, mine.Path: true, filepath.Join(base, "aicplan-1"): true, filepath.Join(base, "aicplan-other-1"): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", path, err == nil, want)
		}
	}
	if err := os.WriteFile(filepath.Join(mine.Path, "log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mine.Remove()
	if _, err := os.Stat(mine.Path); !os.IsNotExist(err) {
		t.Errorf("its own folder is still there: %v", err)
	}
}

// TestFoldersWithoutTheirName: a process may be killed before its folder has its name.
// Nobody can tell a young one from that of a process that lives.
func TestFoldersWithoutTheirName(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	long := time.Now().Add(-2 * unnamedAge)
	want := map[string]bool{}
	for _, c := range []struct {
		name            string
		lock, held, old bool
		stays           bool
	}{
		{name: "aicplan-new-try-1", lock: true, old: true},
		{name: "aicplan-new-try-2", old: true},
		{name: "aicplan-new-try-3", lock: true, stays: true},
		{name: "aicplan-new-try-4", stays: true},
		{name: "aicplan-new-try-5", lock: true, held: true, old: true, stays: true},
		{name: "aicplan-new-other-1", lock: true, old: true, stays: true},
	} {
		path := filepath.Join(base, c.name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if c.lock {
			lock := flock.New(filepath.Join(path, "lock"))
			if held, err := lock.TryLock(); err != nil || !held {
				t.Fatal(held, err)
			}
			if c.held {
				t.Cleanup(func() { _ = lock.Close() })
			} else if err := lock.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if c.old {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
		want[path] = c.stays
	}
	mine, err := New(base, "try")
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Remove()
	for path, stays := range want {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s is there: %v, want %v", path, err == nil, stays)
		}
	}
}
