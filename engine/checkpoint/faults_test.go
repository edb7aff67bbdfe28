package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// faultyFiles is the real file system with injected faults. It also records which bytes and names would
// survive a power failure.
type faultyFiles struct {
	osFiles
	mu     sync.Mutex
	budget int64 // bytes until the disk is full; negative means no limit
	sync   error // what the next Sync returns, once
	mkdir  error
	create error
	syncs  int
	synced map[string]int64 // path -> synced bytes
	named  map[string]bool  // paths whose directory entries are synced
}

func newFaultyFiles() *faultyFiles {
	return &faultyFiles{budget: -1, synced: map[string]int64{}, named: map[string]bool{}}
}

func (ff *faultyFiles) set(change func()) {
	ff.mu.Lock()
	defer ff.mu.Unlock()
	change()
}

func (ff *faultyFiles) Create(path string) (file, error) {
	ff.mu.Lock()
	defer ff.mu.Unlock()
	if ff.create != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: ff.create}
	}
	f, err := ff.osFiles.Create(path)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file: f, ff: ff, path: path}, nil
}

func (ff *faultyFiles) Rename(from, to string) error {
	ff.mu.Lock()
	defer ff.mu.Unlock()
	ff.synced[to] = ff.synced[from]
	return ff.osFiles.Rename(from, to)
}

func (ff *faultyFiles) Mkdir(path string) error {
	if ff.mkdir != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: ff.mkdir}
	}
	return ff.osFiles.Mkdir(path)
}

func (ff *faultyFiles) SyncDir(dir string) error {
	ff.mu.Lock()
	defer ff.mu.Unlock()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ff.named[filepath.Join(dir, e.Name())] = true
	}
	return nil
}

type faultyFile struct {
	file
	ff   *faultyFiles
	path string
	size int64
}

func (f *faultyFile) Write(p []byte) (int, error) {
	f.ff.mu.Lock()
	defer f.ff.mu.Unlock()
	allowed, full := p, error(nil)
	if b := f.ff.budget; b >= 0 && int64(len(p)) > b {
		allowed, full = p[:b], &os.PathError{Op: "write", Path: f.path, Err: syscall.ENOSPC}
	}
	n, err := f.file.Write(allowed)
	if f.ff.budget >= 0 {
		f.ff.budget -= int64(n)
	}
	f.size += int64(n)
	return n, errors.Join(err, full)
}

func (f *faultyFile) Sync() error {
	f.ff.mu.Lock()
	defer f.ff.mu.Unlock()
	if err := f.ff.sync; err != nil {
		f.ff.sync = nil
		return &os.PathError{Op: "sync", Path: f.path, Err: err}
	}
	f.ff.syncs++
	f.ff.synced[f.path] = f.size
	return nil // every test disk is synced
}

func (f *faultyFile) Truncate(n int64) error {
	f.ff.mu.Lock()
	defer f.ff.mu.Unlock()
	f.size = n
	return f.file.Truncate(n)
}
