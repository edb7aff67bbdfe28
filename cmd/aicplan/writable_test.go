package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestTryToWriteBesideOthers starts several applies with one output folder that does not exist yet. The
// check of one must not fail because of another.
func TestTryToWriteBesideOthers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "db")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if err := tryToWrite(dir); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		if _, err := os.Stat(filepath.Dir(dir)); err == nil {
			t.Fatal("the trial made a folder that another aicplan may begin to use before it is removed")
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestTryToWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("missing", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"":       "",
		"link":   "no such file",
		"link/x": "no such file",
		"new/er": "",
		"file":   "not a directory",
		"file/x": "not a directory",
	} {
		err := tryToWrite(filepath.Join(dir, name))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("the trial left something: %v, %v", left, err)
	}
}
