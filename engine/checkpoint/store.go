// Package checkpoint stores the results of runs in a state folder: content-addressed objects, stage
// records, the case journal, run folders and the run lock.
//
//	format                      version of the layout
//	objects/ab/<sha256>         immutable bytes: Arrow IPC files and others
//	stages/<address>.json       what a stage last produced, from what
//	journal/<op>/<context>/     measured and failed cases, one file per writer
//	runs/<id>/                  events and logs of one run
//	lock                        who is running
//
// No file has two writers and none is mapped into memory, so a state folder may be on a network file
// system. The lock only prevents two runs from doing the same work twice.
package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"aicplan/sink/base/fileutil"
)

// Format is the version of the state folder's layout. Open fails with a *FormatError for other
// versions.
const Format = 2

// Options are the options of Open.
type Options struct {
	// ReadOnly rejects every change, for plan and show. A folder that does not exist then reads as
	// empty.
	ReadOnly bool
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Warn receives one line for each damaged item that is treated as missing. Nil drops the lines. It
	// may be called from any goroutine.
	Warn func(string)
	// ValidStage returns an error if a stage record cannot be used. Such a record counts as damaged, so
	// its stage runs again. Nil accepts all records.
	ValidStage func(*StageRecord) error
	// Foreign accepts a folder that another user owns. Without it Open fails with a *ForeignError,
	// because its rows and programs would be used as those of this user.
	Foreign bool
	// Label becomes part of the names of written segments, and segments with other labels are not read.
	// Processes that share the work on a journal use it to read only their own part. An empty label
	// reads all segments. It must not contain dashes or path separators.
	Label string

	files files // nil means the real file system
}

// Store is an open state folder. It is safe for concurrent use.
type Store struct {
	Dir     string // absolute
	Options        // with the default values
	pause   func() // between two attempts of Lock

	ensureMu sync.Mutex
	ensured  bool

	mu       sync.Mutex
	journals map[string]*Journal
	held     *RunLock
	closed   bool
}

// Open opens the state folder dir. It creates nothing before the first write. It fails with a
// *FormatError if the folder has another format, and with an error if dir contains other files.
func Open(dir string, opts Options) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("state folder %q: %w", dir, err)
	}
	s := &Store{
		Dir: abs, Options: opts, journals: map[string]*Journal{}, pause: func() { time.Sleep(lockPause) },
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Warn == nil {
		s.Warn = func(string) {}
	}
	if s.ValidStage == nil {
		s.ValidStage = func(*StageRecord) error { return nil }
	}

	if s.files == nil {
		s.files = osFiles{}
	}
	if info, err := os.Stat(abs); err == nil && !opts.Foreign && !fileutil.Owned(info) {
		return nil, &ForeignError{Dir: abs}
	}
	exists, err := s.checkFormat()
	if err != nil {
		return nil, err
	}

	s.ensured = exists
	return s, nil
}

// Created returns an error with the next step if the state folder does not exist or is empty.
func (s *Store) Created() error {
	exists, err := s.checkFormat()
	if err == nil && !exists {
		err = fmt.Errorf("the state folder %s does not exist or is empty: apply a plan first, or name the folder with "+
			"--state-dir", s.Dir)
	}
	return err
}

// Close flushes and closes the journals and releases the run lock if this store has it. The store must
// not be used afterwards.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	held := s.held
	s.mu.Unlock()

	s.Forget()
	if held == nil {
		return nil
	}
	return held.Release()
}

// Forget closes all journals and drops their indexes. The next call of Store.Journal reads the files
// again, including entries that other processes have added.
func (s *Store) Forget() {
	s.mu.Lock()
	journals := s.journals
	s.journals = map[string]*Journal{}
	s.mu.Unlock()

	for _, j := range journals {
		j.close()
	}
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.Dir}, parts...)...)
}

// ensure creates the state folder before the first write.
func (s *Store) ensure() error {
	if s.ReadOnly {
		return fmt.Errorf("state folder %s: %w", s.Dir, ErrReadOnly)
	}
	s.ensureMu.Lock()
	defer s.ensureMu.Unlock()
	if s.ensured {
		return nil
	}

	exists, err := s.checkFormat()
	if err != nil {
		return err
	}
	if !exists {
		if err := s.mkdir(s.Dir); err != nil {
			return err
		}
		if err := s.writeFile(s.path("format"), []byte(strconv.Itoa(Format)+"\n")); err != nil {
			return err
		}
	}

	s.ensured = true
	return nil
}

// readDir lists a folder by name. A folder that does not exist is empty.
func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileutil.Explain("read", dir, err)
	}
	return entries, nil
}

// mkdir creates dir and its parents durably.
func (s *Store) mkdir(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is a file; the state folder needs a folder there: choose another with --state-dir",
				dir)
		}
		return nil
	}

	parent := filepath.Dir(dir)
	if parent != dir {
		if err := s.mkdir(parent); err != nil {
			return err
		}
	}

	err := s.files.Mkdir(dir)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = s.files.SyncDir(parent)
	}
	if err != nil {
		return s.explain("create", dir, err)
	}

	return nil
}

// writeFile replaces path with data, atomically and durably.
func (s *Store) writeFile(path string, data []byte) error {
	tmp, err := s.writeTemp(filepath.Dir(path), fileutil.Bytes(data))
	if err != nil {
		return s.explain("write", path, err)
	}

	return s.place(tmp, path)
}

// writeTemp writes a durable file with a temporary name in dir. It leaves no file if it fails.
func (s *Store) writeTemp(dir string, fill func(io.Writer) error) (tmp string, err error) {
	if err := s.mkdir(dir); err != nil {
		return "", err
	}
	tmp = filepath.Join(dir, tempPrefix+randomHex(8))
	f, err := s.files.Create(tmp)
	if err != nil {
		return "", err
	}

	if err = fill(f); err == nil {
		err = f.Sync()
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		return "", errors.Join(err, s.files.Remove(tmp))
	}

	return tmp, nil
}

// place renames a file of writeTemp to path, durably. It removes the file if that fails.
func (s *Store) place(tmp, path string) error {
	dir := filepath.Dir(path)
	err := s.mkdir(dir)
	if err == nil {
		err = s.files.Rename(tmp, path)
	}

	if err == nil {
		err = s.files.SyncDir(dir)
	} else {
		err = errors.Join(err, s.files.Remove(tmp))
	}

	if err != nil {
		return s.explain("write", path, err)
	}

	return nil
}

// explain adds a remedy to an error of the file system.
func (s *Store) explain(doing, path string, err error) error {
	err = fileutil.Explain(doing, path, err)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (the state folder is %s; --state-dir or AICPLAN_STATE_DIR chooses another)", err, s.Dir)
	}
	return err
}

// ForeignError reports a state folder that another user owns.
type ForeignError struct{ Dir string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("the state folder %s belongs to another user, whose rows and programs would be used as yours: "+
		"choose another folder with --state-dir, or accept this one with --foreign-state", e.Dir)
}

// checkFormat returns true if the folder is a state folder of this format, and false if it is empty or
// does not exist. Everything else is an error.
func (s *Store) checkFormat() (bool, error) {
	exists, err := s.readFormat()
	if exists || err != nil {
		return exists, err
	}
	foreign := s.checkEmpty()
	if foreign == nil {
		return false, nil
	}

	// Another process may have created the folder since readFormat.
	if exists, err = s.readFormat(); exists || err != nil {
		return exists, err
	}

	return false, foreign
}

func (s *Store) readFormat() (bool, error) {
	path := s.path("format")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}

	if err != nil {
		return false, fileutil.Explain("read", path, err)
	}
	if found := strings.TrimSpace(string(data)); found != strconv.Itoa(Format) {
		return false, &FormatError{Dir: s.Dir, Found: found}
	}

	return true, nil
}

// checkEmpty returns an error if the folder contains other files, so that a mistyped --state-dir does
// not fill it.
func (s *Store) checkEmpty() error {
	entries, err := readDir(s.Dir)
	if err != nil {
		return err
	}

	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "journal" && e.IsDir() }) {
		return &FormatError{Dir: s.Dir}
	}

	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // temporary names, .gitignore, .nfs files
			continue
		}
		return fmt.Errorf(
			"%s is not a state folder: it contains %q and no file named format; give --state-dir an empty folder, a new one, "+
				"or one created by aicplan",
			s.Dir,
			e.Name(),
		)
	}

	return nil
}
