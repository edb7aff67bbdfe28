package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"aicplan/sink/atomic"
)

// checkFormat says whether dir is a state folder already. A folder whose file
// called format is missing or damaged is one all the same when it holds what
// only a state folder holds: the file is two bytes, and what it means is
// worth days. It is reported once, and the next write puts it back.
func (s *Store) checkFormat() (bool, error) {
	path := s.path("format")
	data, err := os.ReadFile(path)
	problem := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		problem = "is missing"
	case errors.Is(err, syscall.EISDIR):
		problem = "is a folder"
	case err != nil:
		return false, atomic.Explain("read", path, err)
	default:
		n, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err == nil && n > Format {
			return false, &FormatError{Dir: s.dir, Found: n}
		}
		if err == nil && n >= 1 {
			return true, nil
		}
		problem = "does not hold a version number"
	}
	if s.holdsState() {
		if !s.mending {
			s.mending = true
			s.warn(fmt.Sprintf("%s %s: the folder holds state and is read as format %d; the next command that writes puts the file back", path, problem, Format))
		}
		return false, nil
	}
	if problem == "is missing" {
		foreign := s.checkEmpty()
		if foreign != nil {
			if _, err := os.Stat(path); err == nil {
				return s.checkFormat() // another aicplan has made the folder meanwhile
			}
		}
		return false, foreign
	}
	return false, fmt.Errorf("%s %s, and nothing else there is state: the state folder is damaged, or %s is not one; choose another with -state-dir", path, problem, s.dir)
}

// holdsState says whether the folder holds a file that only aicplan writes.
func (s *Store) holdsState() bool {
	dir := globEscape(s.dir)
	for _, pattern := range []string{"journal/*/*/*" + segmentSuffix, "stages/*.json"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) > 0 {
			return true
		}
	}
	if runs, err := s.Runs(); err == nil && len(runs) > 0 {
		return true
	}
	objects, err := filepath.Glob(filepath.Join(dir, "objects", "??", "*"))
	return err == nil && slices.ContainsFunc(objects, func(p string) bool { return isDigestName(filepath.Base(p)) })
}

// writeFormat makes the folder say that it is a state folder.
func (s *Store) writeFormat() error {
	return s.writeFile(s.path("format"), []byte(strconv.Itoa(Format)+"\n"))
}

// checkEmpty keeps a mistyped -state-dir from filling a folder of other files.
// Empty folders with our names are what a run leaves whose state was removed
// under it.
func (s *Store) checkEmpty() error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return atomic.Explain("read", s.dir, err)
	}
	ours := []string{"journal", "objects", "stages", "runs", "runtimes", "hosts", "lock", "lock.json"}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // temporary names, .gitignore, .nfs files
			continue
		}
		if slices.Contains(ours, e.Name()) && (!e.IsDir() || holdsNoFile(s.path(e.Name()))) {
			continue
		}
		return fmt.Errorf("%s is not a state folder: it holds %q and no file called format; give -state-dir a folder that is empty, new or was made by aicplan",
			s.dir, e.Name())
	}
	return nil
}

// holdsNoFile says whether there are only folders below dir.
func holdsNoFile(dir string) bool {
	found := errors.New("a file")
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			return found
		}
		return err
	})
	return err == nil
}
