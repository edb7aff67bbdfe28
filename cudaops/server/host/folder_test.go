package host

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// folderHolder is where a process of the test makes a folder, which it keeps until it
// is killed.
const folderHolder = "HOST_TEST_FOLDER"

// holdFolder makes a folder, says where, and keeps it until its input ends.
func holdFolder(base string) {
	f, err := newFolder(base)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	fmt.Println(f.path)
	_, _ = io.Copy(io.Discard, os.Stdin)
	f.remove()
}

// TestFoldersOfKilledWorkers: who starts a server removes the folders of workers that
// were killed, and no others.
func TestFoldersOfKilledWorkers(t *testing.T) {
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
	half := filepath.Join(base, folderPrefix+"half")
	foreign := filepath.Join(base, folderPrefix+"foreign")
	for _, path := range []string{filepath.Join(dead, "traces", "a"), half, filepath.Join(foreign, "data"), filepath.Join(base, "aicplan-1", "traces")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // killed
	mine, err := newFolder(base)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dead: false, half: false, alive: true, foreign: true, mine.path: true, filepath.Join(base, "aicplan-1"): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", path, err == nil, want)
		}
	}
	if err := os.WriteFile(filepath.Join(mine.path, "log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mine.remove()
	if _, err := os.Stat(mine.path); !os.IsNotExist(err) {
		t.Errorf("its own folder is still there: %v", err)
	}
}
