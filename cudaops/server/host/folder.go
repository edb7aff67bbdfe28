package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// folderPrefix begins the names of servers' folders. No other program uses it.
const folderPrefix = "aicplan-server-"

// folder is what a server has for its files. This process holds a lock in it, so
// that a folder whose lock is free is one of a worker that was killed.
type folder struct {
	path string
	lock *flock.Flock
}

// newFolder makes a folder in base, and removes those of workers that were killed.
func newFolder(base string) (*folder, error) {
	sweepFolders(base)
	const unnamed = "aicplan-new-server-"
	made, err := os.MkdirTemp(base, unnamed)
	if err != nil {
		return nil, err
	}
	// It gets its name once the lock is held: nobody takes it for an orphan. Where
	// the file system has no locks, nobody can take any for one.
	named := filepath.Join(base, folderPrefix+strings.TrimPrefix(filepath.Base(made), unnamed))
	f := &folder{path: named, lock: flock.New(filepath.Join(made, "lock"))}
	_, _ = f.lock.TryLock()
	if err := os.Rename(made, named); err != nil {
		return nil, errors.Join(err, f.lock.Close(), os.RemoveAll(made))
	}
	return f, nil
}

// remove removes the folder; what is worth keeping has been attached.
func (f *folder) remove() {
	empty(f.path)
	_ = f.lock.Close()
}

// empty removes a folder, its lock last: where that is cut short, the next worker
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

// sweepFolders removes the folders in base whose worker was killed.
func sweepFolders(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), folderPrefix) {
			continue
		}
		path := filepath.Join(base, e.Name())
		if os.Remove(path) == nil {
			continue // it was empty: a removal was cut short
		}
		lock := flock.New(filepath.Join(path, "lock"), flock.SetFlag(os.O_RDONLY)) // makes none
		if held, err := lock.TryLock(); err == nil && held {
			empty(path)
		}
		_ = lock.Close()
	}
}
