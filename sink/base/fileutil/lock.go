package fileutil

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// FolderMark is the file that marks a folder as being written to.
const FolderMark = ".aicplan.lock"

// folderPatience is how long a folder may be in use before waiting for it ends
// with an error: writing into one takes seconds at most.
const folderPatience = 5 * time.Minute

// unknownPatience is the same for a mark whose holder cannot be known.
const unknownPatience = 10 * time.Second

// poll is how often a lock that is in use is tried again.
const poll = 15 * time.Millisecond

// BusyError says who has what is wanted. Errors.Is finds ErrBusy in it.
type BusyError struct {
	What   string  // "folder /data/h200_sxm", "device GPU-..."
	Holder *Holder // nil when its mark cannot be read
	// Unknown is true when it cannot be seen from here whether the holder lives.
	Unknown bool
	// Path is the mark.
	Path string
}

// ErrBusy is what errors.Is finds in a *BusyError.
var ErrBusy = errors.New("in use")

func (e *BusyError) Error() string {
	by := "another aicplan"
	if e.Holder != nil {
		by = e.Holder.String()
	}
	if e.Unknown {
		return fmt.Sprintf("%s is marked as in use by %s, which cannot be checked from this machine: wait for it; if it has ended, remove %s",
			e.What, by, e.Path)
	}
	return fmt.Sprintf("%s is in use by %s: wait for it, or end it", e.What, by)
}

// Unwrap lets errors.Is find ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

// inProcess makes goroutines of one process queue up without polling.
var inProcess sync.Map

// LockFolder waits until nobody else writes into dir, marks it and returns what
// ends that. It keeps processes of one machine apart by a file lock and those of
// several machines by the mark, which appears with its contents or not at all.
// A mark of a process that died on this machine is taken over. One whose holder
// cannot be known is waited for and then a *BusyError.
func LockFolder(ctx context.Context, dir string, me Holder) (unlock func() error, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	m, _ := inProcess.LoadOrStore(dir, &sync.Mutex{})
	mu := m.(*sync.Mutex)
	mu.Lock()
	f, err := lockMark(ctx, dir, me)
	if err != nil {
		mu.Unlock()
		return nil, err
	}
	path := filepath.Join(dir, FolderMark)
	removeOldMarks(path)
	return func() error {
		defer mu.Unlock()
		defer release(f)
		if !sameFile(f, path) {
			return nil // the folder is gone, or the mark was removed by hand
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Explain("remove", path, err)
		}
		return nil
	}, nil
}

// lockMark makes the mark; the file is open and locked.
func lockMark(ctx context.Context, dir string, me Holder) (*os.File, error) {
	path := filepath.Join(dir, FolderMark)
	started := time.Now()
	for {
		f, err := makeMark(path, me)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, Explain("lock", dir, err)
		}
		holder, state, err := examine(path)
		if err != nil {
			return nil, err
		}
		waited := time.Since(started)
		switch {
		case state == gone:
			continue
		case state == unknown && waited > unknownPatience:
			return nil, &BusyError{What: "the folder " + dir, Holder: holder, Unknown: true, Path: path}
		case waited > folderPatience:
			return nil, &BusyError{What: "the folder " + dir, Holder: holder, Path: path}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(poll):
		}
	}
}

// removeOldMarks removes what killed processes left of marks that never were. Nobody
// else makes one now, but for those who wait for us.
func removeOldMarks(path string) {
	left, err := filepath.Glob(path + "-*")
	if err != nil {
		return // the folder's name is a pattern: untidy, not wrong
	}
	for _, p := range left {
		if info, err := os.Lstat(p); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(p)
		}
	}
}

// makeMark puts a mark at path that is whole and locked from the first moment;
// fs.ErrExist when there is one.
func makeMark(path string, me Holder) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), FolderMark+"-*")
	if err != nil {
		return nil, err
	}
	tmp := f.Name()
	defer os.Remove(tmp) //nolint:errcheck // its other name is what counts
	err = func() error {
		if err := f.Chmod(0o644); err != nil {
			return err
		}
		if err := writeMark(f, me); err != nil {
			return err
		}
		// Where the file system has no locks the mark alone counts.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		err := os.Link(tmp, path)
		if errors.Is(err, fs.ErrExist) || err == nil {
			return err
		}
		// No hard links here: a rename would replace another's mark, so look first.
		if _, serr := os.Lstat(path); serr == nil {
			return fs.ErrExist
		}
		return os.Rename(tmp, path)
	}()
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func writeMark(f *os.File, me Holder) error {
	data, err := json.MarshalIndent(me, "", "  ")
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(data, '\n'), 0)
	return err
}

type markState int

const (
	alive   markState = iota // its holder lives
	gone                     // there is no mark any more
	unknown                  // whether its holder lives cannot be seen
)

// examine looks at a mark and removes that of a dead holder.
func examine(path string) (*Holder, markState, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone, nil
	}
	if err != nil {
		return nil, alive, Explain("read", path, err)
	}
	defer release(f)
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	locked := err == nil
	if errors.Is(err, syscall.EWOULDBLOCK) {
		h, _ := readMark(f)
		return h, alive, nil
	}
	if !sameFile(f, path) {
		return nil, gone, nil
	}
	h, err := readMark(f)
	switch {
	case err != nil || h == nil || !h.SameKernel():
		return h, unknown, nil
	case locked: // under this kernel, and nobody has its lock
	case h.Running():
		return h, alive, nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, alive, Explain("remove", path, err)
	}
	return h, gone, nil
}

func readMark(f *os.File) (*Holder, error) {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<16))
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(string(data)) == "" {
		return nil, nil
	}
	var h Holder
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, err
	}
	return &h, nil
}

// sameFile reports whether f is what path names now.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}
