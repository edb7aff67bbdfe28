package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"

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
	Sync() error
	Truncate(size int64) error
	Close() error
}

type osFiles struct{}

func (osFiles) Create(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
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
