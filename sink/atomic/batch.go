package atomic

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// Batch is files that get their names together. Their bytes are written first,
// under temporary names; an error up to then leaves everything as it was, and
// one while names are given puts back what had its name already. Only a machine
// that goes down in between leaves some of them new and some old.
type Batch struct{ files []*staged }

type staged struct {
	path    string
	pending *renameio.PendingFile
	before  string // the file that was there, under another name; "" without one
	placed  bool
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
	hold(pending.File)
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
	for i, f := range b.files {
		if err := f.place(i+1 < len(b.files)); err != nil {
			return errors.Join(Explain("write", f.path, err), b.rollback())
		}
	}
	dirs := map[string]bool{}
	for _, f := range b.files {
		if dir := filepath.Dir(f.path); !dirs[dir] {
			dirs[dir] = true
			if err := SyncDir(dir); err != nil {
				return errors.Join(Explain("write", f.path, err), b.rollback())
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
		if f.before != "" {
			_ = os.Remove(f.before)
			f.before = ""
		}
	}
}

// place gives the file its name, and first another one to the file that has it,
// where it may have to come back.
func (f *staged) place(keep bool) error {
	if info, err := os.Lstat(f.path); keep && err == nil && info.Mode().IsRegular() {
		name, err := copyOf(f.path)
		if err != nil {
			return err
		}
		f.before = name
	}
	if err := f.pending.CloseAtomicallyReplace(); err != nil {
		return err
	}
	f.placed = true
	return nil
}

// copyOf copies a file under a temporary name, one that sweeping knows.
func copyOf(path string) (name string, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"*")
	if err != nil {
		return "", err
	}
	name = tmp.Name()
	defer func() {
		if e := tmp.Close(); err == nil {
			err = e
		}
		if err != nil {
			_ = os.Remove(name)
		}
	}()
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(tmp, in); err != nil {
		return "", err
	}
	return name, tmp.Chmod(info.Mode().Perm())
}

// rollback puts back what was there before.
func (b *Batch) rollback() error {
	var errs []error
	for _, f := range b.files {
		if !f.placed {
			continue
		}
		var err error
		if f.before != "" {
			err = os.Rename(f.before, f.path)
		} else {
			err = os.Remove(f.path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s could not be put back as it was: %w", f.path, err))
			continue
		}
		f.before, f.placed = "", false
	}
	return errors.Join(errs...)
}
