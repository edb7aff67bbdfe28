package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"aicplan/sink/atomic"
)

// tempPrefix begins the names of files that are not whole yet; gc removes
// what a crash left.
const tempPrefix = ".tmp-"

// files is every way this package changes the file system, so that tests can
// let each of them fail.
type files interface {
	// Create makes a new file; it is an error if it exists.
	Create(path string) (file, error)
	Rename(from, to string) error
	Remove(path string) error
	Mkdir(path string) error
	SyncDir(path string) error
}

type file interface {
	io.Writer
	io.ReaderAt
	Sync() error
	Truncate(size int64) error
	// Gone says whether the name that the file was created under does not mean it
	// any more: it was removed or moved away.
	Gone() bool
	Close() error
}

type osFiles struct{}

func (osFiles) Create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	// While it is open gc leaves it alone; where there are no locks, see
	// Journal.commit and Store.compact.
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return osFile{f}, nil
}

// osFile is a file that knows whether its name still means it.
type osFile struct{ *os.File }

func (f osFile) Gone() bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(f.Name())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(a, b)
}

// inUse says whether another process, or another part of this one, appends to
// the file: as far as the file system has locks.
func inUse(f *os.File) bool {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}

func (osFiles) Rename(from, to string) error { return os.Rename(from, to) }
func (osFiles) Remove(path string) error     { return os.Remove(path) }
func (osFiles) Mkdir(path string) error      { return os.Mkdir(path, 0o755) }
func (osFiles) SyncDir(path string) error    { return atomic.SyncDir(path) }

func randomHex(n int) string {
	b := make([]byte, (n+1)/2)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)[:n]
}
