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
)

// folderHolder makes a process of the test create a folder, which it keeps until it ends.
const folderHolder = "FILEUTIL_TEST_FOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(folderHolder) != "" {
		holdFolder()
		return
	}
	os.Exit(m.Run())
}

// holdFolder creates a folder, prints its path, and keeps it until the input ends.
func holdFolder() {
	f, err := NewTempFolder("try")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	fmt.Println(f.Path)
	_, _ = io.Copy(io.Discard, os.Stdin)
	f.Remove()
}

// startHolder starts a process that holds a folder.
func startHolder(t *testing.T) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), folderHolder+"=1")
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

// TestTempFoldersOfKilledProcessesAreRemoved checks what a new folder removes: the folders of
// killed processes, and nothing behind links.
func TestTempFoldersOfKilledProcessesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, alive := startHolder(t)
	killed, dead := startHolder(t)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // killed

	base := filepath.Dir(dead)
	if info, err := os.Stat(base); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("the folder of the user: %v, %v", info.Mode(), err)
	}

	victim := t.TempDir() // a folder with a file called lock, as state folders have
	other := filepath.Join(base, "other-1")
	for _, path := range []string{filepath.Join(dead, "traces", "a"), other} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(victim, "lock"), filepath.Join(victim, "rows")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link, inside := filepath.Join(base, "try-link"), filepath.Join(dead, "link")
	for _, path := range []string{link, inside} {
		if err := os.Symlink(victim, path); err != nil {
			t.Fatal(err)
		}
	}

	mine, err := NewTempFolder("try")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		dead: false, alive: true, other: true, mine.Path: true, link: true,
		filepath.Join(victim, "lock"): true, filepath.Join(victim, "rows"): true,
	} {
		if _, err := os.Lstat(path); (err == nil) != want {
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

// TestTempFolderOfAnotherUser checks that a folder or link with the name of the user's folder
// is not used.
func TestTempFolderOfAnotherUser(t *testing.T) {
	for name, create := range map[string]func(path string) error{
		"link":  func(path string) error { return os.Symlink(os.TempDir(), path) },
		"file":  func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"open":  func(path string) error { return os.Mkdir(path, 0o755) },
		"owner": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			path := filepath.Join(tmp, fmt.Sprintf("aicplan-%d", os.Geteuid()))
			if err := create(path); err != nil {
				t.Fatal(err)
			}
			if name == "owner" {
				if err := os.Chown(path, 65534, 65534); err != nil {
					t.Skip("only root can give a folder to another user")
				}
			}

			f, err := NewTempFolder("try")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Remove()
			if filepath.Dir(f.Path) != tmp {
				t.Errorf("the folder is %s", f.Path)
			}
			if info, err := os.Stat(f.Path); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}
