// Package scratch makes folders for temporary files that outlive no killed process:
// who makes the next one removes what it left.
package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Prefix begins the names of all folders. No other program uses it.
const Prefix = "aicplan-"

// Folder is a folder for temporary files. This process holds a lock in it, so that a
// folder whose lock is free is one of a process that was killed.
type Folder struct {
	Path string
	lock *flock.Flock
}

// New makes a folder in base, "" for the system's folder for temporary files, and
// removes those of killed processes that have the same name: what they are for.
func New(base, name string) (*Folder, error) {
	if base == "" {
		base = os.TempDir()
	}
	prefix := Prefix + name + "-"
	sweep(base, prefix, 0)
	unnamed := Prefix + "new-" + name + "-"
	sweep(base, unnamed, unnamedAge)
	made, err := os.MkdirTemp(base, unnamed)
	if err != nil {
		return nil, err
	}
	// It gets its name once the lock is held: nobody takes it for an orphan. Where
	// the file system has no locks, nobody can take any for one.
	named := filepath.Join(base, prefix+strings.TrimPrefix(filepath.Base(made), unnamed))
	f := &Folder{Path: named, lock: flock.New(filepath.Join(made, "lock"))}
	_, _ = f.lock.TryLock()
	if err := os.Rename(made, named); err != nil {
		return nil, errors.Join(err, f.lock.Close(), os.RemoveAll(made))
	}
	return f, nil
}

// unnamedAge is how old a folder without its name is that a killed process has left: a
// living one gives it at once, and nobody else may take its folder before.
const unnamedAge = 24 * time.Hour

// Remove removes the folder and all that is in it.
func (f *Folder) Remove() {
	empty(f.Path)
	_ = f.lock.Close()
}

// empty removes a folder, its lock last: where that is cut short, the next process
// still knows what it is.
func empty(path string) {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.Name() != "lock" {
			_ = os.RemoveAll(filepath.Join(path, e.Name()))
		}
	}
	_ = os.Remove(filepath.Join(path, "lock"))
	_ = os.Remove(path)
}

// sweep removes the folders in base whose process was killed, and that are so old.
func sweep(base, prefix string, age time.Duration) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if info, err := e.Info(); age > 0 && (err != nil || time.Since(info.ModTime()) < age) {
			continue
		}
		path := filepath.Join(base, e.Name())
		if os.Remove(path) == nil {
			continue // it was empty: a removal, or its making, was cut short
		}
		lock := flock.New(filepath.Join(path, "lock"), flock.SetFlag(os.O_RDONLY)) // makes none
		if held, err := lock.TryLock(); err == nil && held {
			empty(path)
		}
		_ = lock.Close()
	}
}
