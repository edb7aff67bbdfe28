package fileutil

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
	f, err := NewTempFolder(base, "try")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	fmt.Println(f.Path)
	_, _ = io.Copy(io.Discard, os.Stdin)
	f.Remove()
}

func TestNewTempFolderRemovesFoldersOfKilledProcesses(t *testing.T) {
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
	_, alive := hold()
	killed, dead := hold()
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // killed

	foreign := filepath.Join(base, "aicplan-try-foreign") // without a lock
	fresh := filepath.Join(base, "aicplan-try-fresh")
	other := filepath.Join(base, "aicplan-other-1")
	for _, path := range []string{filepath.Join(dead, "traces", "a"), foreign, fresh, other} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(fresh, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * minAge)
	for _, path := range []string{dead, alive, foreign, other} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}

	mine, err := NewTempFolder(base, "try")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dead: false, alive: true, foreign: true, fresh: true, other: true, mine.Path: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s exists: %v, want %v", path, err == nil, want)
		}
	}
	if err := os.WriteFile(filepath.Join(mine.Path, "log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mine.Remove()
	if _, err := os.Stat(mine.Path); !os.IsNotExist(err) {
		t.Errorf("its own folder still exists: %v", err)
	}
}
