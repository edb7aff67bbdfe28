// Package pyhost is the Python worker: a Python package in host, embedded and
// written as one zip file, that speaks the worker protocol, hosts op functions
// written in Python and runs the modules of an existing collector checkout
// unchanged.
//
// The worker needs Python 3.9 or later and nothing but its standard library;
// torch and the framework are imported where an op or the device asks for them.
// What a version means (PEP 440) is decided here: the worker asks (see Answer).
package pyhost

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"aicplan/sink/base/fileutil"
)

//go:embed host/__main__.py host/aicplan_host/*.py
var sources embed.FS

// packed is the worker as Python runs it: a zip file with a __main__.py. Its
// bytes depend on the sources alone; they are stored, not deflated, because an
// interpreter may have been built without zlib.
var packed = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	err := fs.WalkDir(sources, "host", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: strings.TrimPrefix(path, "host/"), Method: zip.Store})
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return err
	})
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // memory to memory
	}
	return b.Bytes()
})

// DefaultPython is the interpreter of runtimes that name none.
const DefaultPython = "python3"

// Digest is the SHA-256 of the packed worker in hex.
func Digest() string {
	sum := sha256.Sum256(packed())
	return hex.EncodeToString(sum[:])
}

// WriteError is why the host cannot be written: that is about the folder, and not
// about the interpreter.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return "python host: " + e.Err.Error() }

func (e *WriteError) Unwrap() error { return e.Err }

// Write puts the host into dir, under a name that contains its digest, and returns the
// file's absolute path. If other users can change dir or its parent, Write uses the user's
// folder for temporary files instead, because the file could be replaced between its check
// and its start. A file with the right content stays; several processes may write at the
// same time.
func Write(dir string) (string, error) {
	dir, err := privateDir(dir)
	if err != nil {
		return "", &WriteError{err}
	}
	path := filepath.Join(dir, "host-"+Digest()[:12]+".pyz")
	if info, err := os.Lstat(path); err == nil && private(info) {
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, packed()) {
			return path, nil
		}
	}
	if _, err := fileutil.WriteFile(path, packed()); err != nil {
		return "", &WriteError{err}
	}
	return path, nil
}

// privateDir returns the absolute path of dir, or of a folder for temporary files if other
// users can change dir. It creates the folder.
func privateDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if info, err := os.Lstat(dir); err == nil && private(info) {
		if info, err = os.Stat(filepath.Dir(dir)); err == nil && private(info) {
			return dir, nil
		}
	}

	own, shared, err := fileutil.UserTempDir()
	if err != nil {
		return "", err
	}
	if shared {
		return "", fmt.Errorf("other users can change %s, and there is no folder of your own in %s: "+
			"set TMPDIR to a folder of yours, or choose another state folder with --state-dir", dir, own)
	}
	return own, nil
}

// private reports whether other users, outside the file's group, cannot change a file or
// folder.
func private(info fs.FileInfo) bool {
	return (info.IsDir() || info.Mode().IsRegular()) && fileutil.Owned(info) && info.Mode().Perm()&0o002 == 0
}

// Command returns the program and the arguments that start a worker with the
// interpreter python ("" means DefaultPython), after writing the host into
// hostDir. The worker reads its descriptors from the environment. An
// interpreter that cannot be found is an error that says what to set.
func Command(python, hostDir string) (path string, args []string, err error) {
	if python == "" {
		python = DefaultPython
	}
	path, err = exec.LookPath(python)
	if err != nil {
		return "", nil, fmt.Errorf(
			"no Python interpreter %q (%w): set python = \"/path/to/python3\" in the runtime block, or start aicplan where "+
				"the framework is installed",
			python,
			err,
		)
	}
	host, err := Write(hostDir)
	if err != nil {
		return "", nil, err
	}
	return path, []string{"-u", host}, nil
}
