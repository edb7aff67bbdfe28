// Package fileutil writes files atomically, reads files with a limit, keeps output inside a
// folder, locks folders and devices between processes, and creates temporary folders.
//
// A file is written under a temporary name in the same folder, synced and renamed; then
// the folder is synced. A reader sees the old or the new file, never a part.
package fileutil

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Digest returns the digest of data as artifacts have it: "sha256:<hex>".
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + hex.EncodeToString(sum[:])
}

const digestPrefix = "sha256:"

// DigestFile returns the digest of a regular file.
func DigestFile(path string) (string, error) {
	f, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()

	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return DigestOf(h), nil
}

// DigestOf returns the digest of the bytes that were written to a SHA-256 hash.
func DigestOf(h hash.Hash) string { return digestPrefix + hex.EncodeToString(h.Sum(nil)) }

// WriteFile replaces the content of path, with permission 0644, and returns the digest of
// the bytes. The folder must exist. After an error the old file, if any, is unchanged.
func WriteFile(path string, data []byte) (string, error) {
	return Write(path, Bytes(data))
}

// Bytes returns a function that writes data.
func Bytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// Write is WriteFile for content that fill writes. Writes are buffered. An error of fill is
// returned.
func Write(path string, fill func(io.Writer) error) (string, error) {
	var b Batch
	defer b.Discard()

	digest, err := b.Stage(path, fill)
	if err != nil {
		return "", err
	}
	return digest, b.Commit()
}

// Batch is a set of files that get their names together. Their bytes are written and synced
// first, under temporary names, so that an error such as a full disk changes nothing. A
// failed rename, or a crash between two renames, leaves some files new and some old.
type Batch struct{ files []staged }

// staged is a file under a temporary name.
type staged struct {
	path string
	temp *os.File
}

// Stage writes the bytes of path next to it and returns their digest. The folder must
// exist. It fails if path exists and is neither a regular file nor a link.
func (b *Batch) Stage(path string, fill func(io.Writer) error) (digest string, err error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		if err := regular(info.Mode()); err != nil {
			return "", fmt.Errorf("cannot write %s: %w", path, err)
		}
	}

	temp, err := createTemp(path)
	if err != nil {
		return "", Explain("write", path, err)
	}
	b.files = append(b.files, staged{path, temp})

	h := &hashWriter{w: temp, path: path, h: sha256.New()}
	buf := bufio.NewWriterSize(h, 1<<16)
	if err := fill(buf); err != nil {
		return "", err
	}
	if err := buf.Flush(); err != nil {
		return "", err
	}
	if err := temp.Sync(); err != nil {
		return "", Explain("write", path, err)
	}

	return DigestOf(h.h), nil
}

// Commit gives all files their names, in the order in which they were staged.
func (b *Batch) Commit() error {
	defer b.Discard()
	var dirs []string
	for i, f := range b.files {
		if err := os.Rename(f.temp.Name(), f.path); err != nil {
			return Explain("write", f.path, err)
		}
		b.files[i].temp = nil
		_ = f.temp.Close() // synced before
		if dir := filepath.Dir(f.path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}

	for _, dir := range dirs {
		if err := SyncDir(dir); err != nil {
			return Explain("write", dir, err)
		}
	}
	return nil
}

// Discard removes the files that have no name yet. After Commit it does nothing.
func (b *Batch) Discard() {
	for _, f := range b.files {
		if f.temp != nil {
			_ = os.Remove(f.temp.Name())
			_ = f.temp.Close()
		}
	}
	b.files = nil
}

// createTemp creates a temporary file for path and locks it, which marks it as being
// written. It first removes those that killed writers left behind. If the file system has
// no locks, no file is removed.
func createTemp(path string) (*os.File, error) {
	removeAbandoned(path)
	for {
		f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"*")
		if err != nil {
			return nil, err
		}

		if !errors.Is(tryLock(f), syscall.EWOULDBLOCK) && sameFile(f, f.Name()) {
			return f, f.Chmod(0o644)
		}
		_ = f.Close() // another writer removed it before it was locked
	}
}

// removeAbandoned removes temporary files of path that no process has locked.
func removeAbandoned(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		random, ours := strings.CutPrefix(e.Name(), "."+filepath.Base(path))
		if !ours || random == "" || strings.Trim(random, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}

		temp := filepath.Join(filepath.Dir(path), e.Name())
		f, err := os.OpenFile(temp, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if tryLock(f) == nil && sameFile(f, temp) {
			_ = os.Remove(temp)
		}
		_ = f.Close()
	}
}

// hashWriter writes a file and hashes its bytes. Its errors name path, not the temporary
// file.
type hashWriter struct {
	w    io.Writer
	path string
	h    hash.Hash
}

func (h *hashWriter) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	h.h.Write(p[:n])
	if err != nil {
		err = Explain("write", h.path, err)
	}
	return n, err
}

// SyncDir makes the names in dir durable. A file system that cannot sync a folder, such as
// some network file systems, is assumed to do so itself.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()

	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// readerTimeout is how long WriteNamed waits for a process to open the other end of a pipe.
var readerTimeout = 5 * time.Second

// WriteNamed writes to a path that a user named. A regular file is replaced as by Write.
// Anything else, such as a device, a pipe or the target of a symbolic link, is written in
// place.
func WriteNamed(path string, fill func(io.Writer) error) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() {
		_, err := Write(path, fill)
		return err
	}
	if err != nil {
		return Explain("write", path, err)
	}

	// Without O_NONBLOCK, opening a pipe without a reader blocks forever.
	open := func() (*os.File, error) {
		return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
	}
	f, err := open()
	for start := time.Now(); errors.Is(err, syscall.ENXIO) && time.Since(start) < readerTimeout; f, err = open() {
		time.Sleep(10 * time.Millisecond)
	}
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("cannot write %s: no process reads from it", path)
	}
	if err != nil {
		return Explain("write", path, err)
	}

	buf := bufio.NewWriterSize(&hashWriter{w: f, path: path, h: sha256.New()}, 1<<16)
	err = fill(buf)
	if err == nil {
		err = buf.Flush()
	}
	if cerr := f.Close(); err == nil && cerr != nil {
		err = Explain("write", path, cerr)
	}
	return err
}
