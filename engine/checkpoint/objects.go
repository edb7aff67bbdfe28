package checkpoint

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/table"
)

const digestPrefix = "sha256:"

// Digest returns the digest of data, "sha256:<hex>".
func Digest(data []byte) string { return fileutil.Digest(data) }

// PutRecord stores a table as an Arrow IPC file and returns its digest. The digest is computed over the
// data in normal form (table.Normal), so equal tables have equal digests.
func (s *Store) PutRecord(rec arrow.Record) (string, error) {
	return s.put(func(w io.Writer) error {
		buf := bufio.NewWriterSize(w, 1<<20)
		if err := table.WriteIPC(buf, rec); err != nil {
			return err
		}
		return buf.Flush()
	})
}

// put stores the bytes that fill writes and returns their digest. The digest, and thus the file name, is known only
// after the write.
func (s *Store) put(fill func(io.Writer) error) (string, error) {
	if err := s.ensure(); err != nil {
		return "", err
	}

	dir := filepath.Join(s.Dir, "objects", "00")
	sum := sha256.New()
	tmp, err := s.writeTemp(dir, func(w io.Writer) error { return fill(io.MultiWriter(w, sum)) })
	if err != nil {
		return "", s.explain("write an object in", dir, err)
	}

	digest := fileutil.DigestOf(sum)
	path, err := s.ObjectPath(digest)
	if err != nil {
		return "", errors.Join(err, s.files.Remove(tmp))
	}

	if old, err := fileutil.DigestFile(path); err == nil && old == digest {
		return digest, s.files.Remove(tmp)
	}

	return digest, s.place(tmp, path)
}

// GetRecord reads a table stored by PutRecord. Errors are those of GetBytes.
func (s *Store) GetRecord(digest string) (arrow.Record, error) {
	data, err := s.GetBytes(digest)
	if err != nil {
		return nil, err
	}
	rec, err := table.DecodeIPC(data)
	if err != nil {
		return nil, fmt.Errorf("object %s is not a table: %w", digest, err)
	}

	return rec, nil
}

// PutBytes stores data and returns its digest once the bytes are durable. An existing object with this
// digest is read and checked, but not written again.
func (s *Store) PutBytes(data []byte) (string, error) {
	digest := Digest(data)
	if err := s.ensure(); err != nil {
		return "", err
	}
	path, err := s.ObjectPath(digest)
	if err != nil {
		return "", err
	}

	if old, err := os.ReadFile(path); err == nil && Digest(old) == digest {
		return digest, nil
	}

	return digest, s.writeFile(path, data)
}

// PutFile stores the content of a file without reading it into memory. It returns the digest and the
// size in bytes.
func (s *Store) PutFile(file string) (digest string, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, fileutil.Explain("read", file, err)
	}
	defer f.Close()

	digest, err = s.put(func(w io.Writer) (err error) {
		size, err = io.Copy(w, f)
		return err
	})
	return digest, size, err
}

// GetBytes reads an object and verifies its digest. The error is ErrMissing if the object does not
// exist. If it is damaged, the error is ErrCorrupt and is reported to Options.Warn; unless the store is
// read-only, the object gets the suffix of corruptSuffix and is missing from then on.
func (s *Store) GetBytes(digest string) ([]byte, error) {
	path, err := s.ObjectPath(digest)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("object %s: %w", digest, ErrMissing)
	}

	if err != nil {
		return nil, fileutil.Explain("read", path, err)
	}
	if got := Digest(data); got != digest {
		err := &CorruptError{Path: path, Detail: fmt.Sprintf("its %d bytes have the digest %s", len(data), short(got))}
		if !s.ReadOnly {
			_ = s.files.Rename(path, path+corruptSuffix) // if this fails, the next reader reports it again
		}
		s.warnMissing(err)
		return nil, err
	}

	return data, nil
}

// corruptSuffix ends the names of damaged objects.
const corruptSuffix = ".corrupt"

// HasObject reports whether an object exists. It does not read the object.
func (s *Store) HasObject(digest string) bool {
	path, err := s.ObjectPath(digest)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ObjectPath returns the path of an object, whether it exists or not. It fails if digest is not valid.
func (s *Store) ObjectPath(digest string) (string, error) {
	name, ok := strings.CutPrefix(digest, digestPrefix)
	if !ok || !isDigestName(name) {
		return "", fmt.Errorf("%q is not a digest (sha256: and 64 hex digits)", digest)
	}
	return s.path("objects", name[:2], name), nil
}

func isDigestName(name string) bool {
	return len(name) == 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// short returns the first 12 digits of a digest, or the text itself if it is not a digest.
func short(digest string) string {
	name := strings.TrimPrefix(digest, digestPrefix)
	if isDigestName(name) {
		return name[:12]
	}
	return digest
}
