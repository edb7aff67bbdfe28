// Package fileutil writes files atomically, keeps output inside a folder, locks folders
// and devices between processes, and creates temporary folders.
//
// A file is written under a temporary name in the same folder, synced and renamed; then
// the folder is synced. A reader sees the old or the new file, never a part.
package fileutil

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Digest returns the digest of data as artifacts carry it: "sha256:<hex>".
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// WriteFile makes path hold data with permission 0644 and returns the digest
// of the bytes. The folder must exist. After an error the old file, if any, is
// as it was.
func WriteFile(path string, data []byte) (string, error) {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write is WriteFile for content that is produced piece by piece. What fill
// writes is buffered; its error ends the write and is returned.
func Write(path string, fill func(io.Writer) error) (string, error) {
	var b Batch
	defer b.Discard()
	digest, err := b.Stage(path, fill)
	if err != nil {
		return "", err
	}
	return digest, b.Commit()
}

// hashWriter writes a file and sums its bytes up. Its errors name the file and not
// the temporary one, whoever hands them on.
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

// SyncDir makes the names in dir durable. File systems that cannot sync a
// folder (some network ones) are taken as doing it themselves.
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

// Explain wraps an error of the file system with the path and with what the
// user can do about it. It keeps err for errors.Is.
func Explain(doing, path string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	cause := err
	switch {
	case errors.As(err, &pe):
		cause = pe.Err
	case errors.As(err, &le):
		cause = le.Err
	}
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = ": free some space there and run the same command again"
	case errors.Is(err, syscall.EROFS):
		hint = ": choose a folder on a file system that is not read-only"
	case errors.Is(err, fs.ErrPermission) && looks(doing):
		hint = ": its permissions do not let you read it"
	case errors.Is(err, fs.ErrPermission):
		hint = ": choose a folder that you may write to, or change its permissions"
	case errors.Is(err, fs.ErrNotExist) && !looks(doing):
		hint = ": create the folder first"
	case errors.Is(err, syscall.ENOTDIR):
		hint = ": a part of the path is a file, not a folder"
	case errors.Is(err, syscall.EIO):
		hint = ": the disk reports a fault; check it before going on"
	}
	return fmt.Errorf("cannot %s %s%s: %w", doing, path, hint, tidy{cause, err})
}

// looks says whether something was only looked at, so that advice about writing
// would mislead.
func looks(doing string) bool {
	return strings.HasPrefix(doing, "read") || strings.HasPrefix(doing, "look")
}

// tidy prints the cause alone, where the path would be said twice, and still
// unwraps to the whole error.
type tidy struct{ cause, whole error }

func (t tidy) Error() string { return t.cause.Error() }
func (t tidy) Unwrap() error { return t.whole }
