package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"aicplan/sink/base/fileutil"
)

// tempPrefix starts the names of incomplete files. gc removes those that a crash leaves.
const tempPrefix = ".tmp-"

// files contains all operations by which this package changes the file system, so that tests can inject
// failures.
type files interface {
	// Create creates a file. It fails if the file exists.
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
	// Gone returns true if the file was removed, renamed or replaced.
	Gone() bool
	Close() error
}

type osFiles struct{}

func (osFiles) Create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	// gc does not compact a journal with a locked segment; see inUse.
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return osFile{f}, nil
}

// osFile adds Gone to os.File, and unlocks the file when it is closed.
type osFile struct{ *os.File }

// Close unlocks the file first: a process that this one is starting keeps the lock until it runs its program.
func (f osFile) Close() error {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing reports errors
	return f.File.Close()
}

func (f osFile) Gone() bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(f.Name())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(a, b)
}

func (osFiles) Rename(from, to string) error { return os.Rename(from, to) }
func (osFiles) Remove(path string) error     { return os.Remove(path) }
func (osFiles) Mkdir(path string) error      { return os.Mkdir(path, 0o755) }
func (osFiles) SyncDir(path string) error    { return fileutil.SyncDir(path) }

func randomHex(n int) string {
	b := make([]byte, (n+1)/2)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)[:n]
}
