package fileutil

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is no file is neither waited for nor replaced.
func TestOnlyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, folder, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "folder"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "it is a named pipe, not a file", folder: "it is a folder, not a file",
		"/dev/zero": "it is a device, not a file"} {
		_, err := ReadFile(path)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("reading: %v, want %q", err, want)
		}
		if path == "/dev/zero" {
			continue
		}
		if _, err := WriteFile(path, []byte("text")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("writing: %v, want %q", err, want)
		}
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("the pipe is gone: %v %v", info, err)
	}
	if data, err := ReadFile(link); err != nil || string(data) != "text" {
		t.Errorf("through a link: %q %v", data, err)
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestReadTextLimitsTheSize(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "large.hcl")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxText+1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadText(path); err == nil || !strings.Contains(err.Error(), "it is larger than 64 MiB") {
		t.Error(err)
	}
	if data, err := ReadFile(path); err != nil || len(data) != maxText+1 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
