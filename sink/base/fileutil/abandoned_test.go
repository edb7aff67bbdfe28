package fileutil

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestWriteRemovesFilesOfKilledWriters checks that a write removes the temporary files of
// killed writers at once, and neither those of living writers nor other files.
func TestWriteRemovesFilesOfKilledWriters(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".p.txt123", ".p.txt456", ".p.txt789", ".p.txtabc", ".p.txt", ".q.txt123"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	held, err := os.Open(filepath.Join(dir, ".p.txt789"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Skip("this file system has no locks: ", err)
	}
	if _, err := WriteFile(filepath.Join(dir, "p.txt"), []byte("whole")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{".p.txt", ".p.txt789", ".p.txtabc", ".q.txt123", "p.txt"}
	if !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
}
