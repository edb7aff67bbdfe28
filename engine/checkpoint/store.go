// Package checkpoint keeps what was done: content-addressed objects, stage
// records, the case journal, run folders and the run lock, all under one state
// folder.
//
//	format                      version of the layout
//	objects/ab/<sha256>         immutable bytes: Arrow IPC files and others
//	stages/<address>.json       what a stage last produced, from what
//	journal/<op>/<context>/     measured and failed cases, one file per writer
//	runs/<id>/                  events and logs of one run
//	lock, lock.json             who is running
//
// No file is ever shared by two writers and nothing is mapped into memory, so
// a state folder may lie on a network file system; the lock only keeps two
// runs from doing the same work twice.
package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"aicplan/sink/atomic"
)

// Format is the version of the state folder's layout. Folders of other versions are
// refused with a *FormatError.
const Format = 2

// Options of a Store.
type Options struct {
	// ReadOnly refuses every change: for plan and show. A folder that does not
	// exist then reads as an empty one.
	ReadOnly bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Warn receives one line for each thing found damaged and treated as
	// missing; nil drops them. It is called from any goroutine.
	Warn func(string)
	// ValidStage says why a stage record cannot be used, which then counts as
	// damaged: its stage runs again. Nil takes all.
	ValidStage func(*StageRecord) error
	// Label goes into the names of the segments that are written, and those of
	// other labels are not read: for one of many processes that share the work on
	// a journal and needs its own part only. "" reads all. It has no dash and no
	// separator of paths.
	Label string

	files files // nil means the real file system
}

// Store is an open state folder, safe for concurrent use.
type Store struct {
	dir      string
	readOnly bool
	now      func() time.Time
	warn     func(string)
	usable   func(*StageRecord) error
	files    files
	label    string
	pause    func() // between two tries of Lock

	ensureMu sync.Mutex
	ensured  bool

	mu       sync.Mutex
	journals map[string]*Journal
	held     *RunLock
	closed   bool

	readers readers // see EntryAt
}

// Open opens the state folder dir. Nothing is created before the first write.
// It fails with a *FormatError if the folder has another format, and if dir contains
// other files.
func Open(dir string, opts Options) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("state folder %q: %w", dir, err)
	}
	s := &Store{
		dir: abs, readOnly: opts.ReadOnly, now: opts.Now, warn: opts.Warn, usable: opts.ValidStage, files: opts.files, label: opts.Label,
		journals: map[string]*Journal{}, pause: func() { time.Sleep(lockPause) },
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.warn == nil {
		s.warn = func(string) {}
	}
	if s.files == nil {
		s.files = osFiles{}
	}
	exists, err := s.checkFormat()
	if err != nil {
		return nil, err
	}
	s.ensured = exists
	return s, nil
}

// Dir returns the absolute path of the state folder.
func (s *Store) Dir() string { return s.dir }

// ReadOnly says whether the store refuses changes.
func (s *Store) ReadOnly() bool { return s.readOnly }

// Close ends the journals after what was handed to them is on disk, and gives
// the lock back if it is held. The store must not be used afterwards.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	journals, held := s.journals, s.held
	s.journals = map[string]*Journal{}
	s.mu.Unlock()
	s.readers.close()
	var errs []error
	for _, j := range journals {
		errs = append(errs, j.close())
	}
	if held != nil {
		errs = append(errs, held.Release())
	}
	return errors.Join(errs...)
}

// Forget drops what was read of the journals: the next Store.Journal reads them
// anew, with what other processes have added. Journals that are in use end as
// by Close.
func (s *Store) Forget() error {
	s.mu.Lock()
	journals := s.journals
	s.journals = map[string]*Journal{}
	s.mu.Unlock()
	var errs []error
	for _, j := range journals {
		errs = append(errs, j.close())
	}
	return errors.Join(errs...)
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// ensure creates the state folder before the first write.
func (s *Store) ensure() error {
	if s.readOnly {
		return fmt.Errorf("state folder %s: %w", s.dir, ErrReadOnly)
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
		if err := s.mkdir(s.dir); err != nil {
			return err
		}
		if err := s.writeFile(s.path("format"), []byte(strconv.Itoa(Format)+"\n")); err != nil {
			return err
		}
	}
	s.ensured = true
	return nil
}

// mkdir creates dir with its parents, each of them durable.
func (s *Store) mkdir(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is a file; the state folder needs a folder there: choose another with -state-dir", dir)
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := s.mkdir(parent); err != nil {
			return err
		}
	}
	if err := s.files.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return s.explain("create", dir, err)
	}
	if err := s.files.SyncDir(parent); err != nil {
		return s.explain("create", dir, err)
	}
	return nil
}

// writeFile makes path hold data, wholly or not at all, and durable.
func (s *Store) writeFile(path string, data []byte) error {
	return s.writeFrom(path, bytes.NewReader(data))
}

func (s *Store) writeFrom(path string, data io.Reader) error {
	tmp, err := s.writeTemp(filepath.Dir(path), func(w io.Writer) error {
		_, err := io.Copy(w, data)
		return err
	})
	if err != nil {
		return s.explain("write", path, err)
	}
	return s.place(tmp, path)
}

// writeTemp writes a durable file in dir under a name that says that it is not
// whole yet. After an error there is none.
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
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", errors.Join(err, s.files.Remove(tmp))
	}
	return tmp, nil
}

// place gives a file that writeTemp wrote its name, durably, or removes it.
func (s *Store) place(tmp, path string) error {
	dir := filepath.Dir(path)
	err := s.mkdir(dir)
	if err == nil {
		err = s.files.Rename(tmp, path)
	}
	if err == nil {
		err = s.files.SyncDir(dir)
	} else if rerr := s.files.Remove(tmp); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if err != nil {
		return s.explain("write", path, err)
	}
	return nil
}

// explain adds what the user can do to an error of the file system.
func (s *Store) explain(doing, path string, err error) error {
	err = atomic.Explain(doing, path, err)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (the state folder is %s; -state-dir or AICPLAN_STATE_DIR chooses another)", err, s.dir)
	}
	return err
}
