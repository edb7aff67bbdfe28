package fileutil

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// tempPrefix begins the names of all folders. No other program uses it.
const tempPrefix = "aicplan-"

// minAge is the age below which a folder is kept: its process may not have locked it yet.
const minAge = time.Minute

// TempFolder is a folder for temporary files. Its process holds a lock in it; a free lock
// means that the process was killed.
type TempFolder struct {
	Path string
	lock *flock.Flock
}

// NewTempFolder creates a folder in base, or in the system's folder for temporary files if base is
// empty. It removes the folders of killed processes with the same name.
func NewTempFolder(base, name string) (*TempFolder, error) {
	if base == "" {
		base = os.TempDir()
	}
	prefix := tempPrefix + name + "-"
	removeOldFolders(base, prefix)

	path, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return nil, err
	}
	f := &TempFolder{Path: path, lock: flock.New(filepath.Join(path, "lock"))}
	_, _ = f.lock.TryLock() // without locks on the file system, removeOldFolders removes no folder
	return f, nil
}

// Remove removes the folder and all that is in it.
func (f *TempFolder) Remove() {
	_ = os.RemoveAll(f.Path)
	_ = f.lock.Close()
}

// removeOldFolders removes the folders in base whose process was killed.
func removeOldFolders(base, prefix string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if info, err := e.Info(); err != nil || time.Since(info.ModTime()) < minAge {
			continue
		}
		path := filepath.Join(base, e.Name())
		lock := flock.New(filepath.Join(path, "lock"), flock.SetFlag(os.O_RDONLY)) // creates no file
		if held, err := lock.TryLock(); err == nil && held {
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}
