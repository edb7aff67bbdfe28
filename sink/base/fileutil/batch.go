package fileutil

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// Batch is files that get their names together. Their bytes are written and synced
// first, under temporary names: an error up to then, such as a full disk, leaves
// everything as it was. A failed rename, or a crash between two, leaves some files new
// and some old.
type Batch struct{ files []*staged }

type staged struct {
	path    string
	pending *renameio.PendingFile
}

// Stage writes the bytes of path next to it and returns their digest. The folder
// must exist. What is there and is neither a plain file nor a link is refused.
func (b *Batch) Stage(path string, fill func(io.Writer) error) (digest string, err error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		if err := regular(info.Mode()); err != nil {
			return "", fmt.Errorf("cannot write %s: %w", path, err)
		}
	}
	pending, err := renameio.NewPendingFile(path,
		renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644), renameio.IgnoreUmask())
	if err != nil {
		return "", Explain("write", path, err)
	}
	b.files = append(b.files, &staged{path: path, pending: pending})
	lockTemp(pending.File)
	h := &hashWriter{w: pending, path: path, h: sha256.New()}
	buf := bufio.NewWriterSize(h, 1<<16)
	if err := fill(buf); err != nil {
		return "", err
	}
	if err := buf.Flush(); err != nil {
		return "", err
	}
	if err := pending.Sync(); err != nil {
		return "", Explain("write", path, err)
	}
	return "sha256:" + hex.EncodeToString(h.h.Sum(nil)), nil
}

// StageBytes is Stage for content in memory.
func (b *Batch) StageBytes(path string, data []byte) (digest string, err error) {
	return b.Stage(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Commit gives all files their names, in the order in which they were staged.
// Each of last is asked just before; its error leaves everything as it was.
func (b *Batch) Commit(last ...func() error) error {
	defer b.Discard()
	for _, check := range last {
		if err := check(); err != nil {
			return err
		}
	}
	for _, f := range b.files {
		if err := f.pending.CloseAtomicallyReplace(); err != nil {
			return Explain("write", f.path, err)
		}
	}
	dirs := map[string]bool{}
	for _, f := range b.files {
		if dir := filepath.Dir(f.path); !dirs[dir] {
			dirs[dir] = true
			if err := SyncDir(dir); err != nil {
				return Explain("write", f.path, err)
			}
		}
	}
	for _, f := range b.files {
		sweep(f.path, time.Now())
	}
	return nil
}

// Discard removes what has no name yet; after Commit it does nothing more.
func (b *Batch) Discard() {
	for _, f := range b.files {
		_ = f.pending.Cleanup() // no effect once the file has its name
	}
}
