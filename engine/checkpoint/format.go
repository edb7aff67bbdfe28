package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"aicplan/sink/base/fileutil"
)

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
		return false, &FormatError{Dir: s.dir, Found: found}
	}

	return true, nil
}

// checkEmpty returns an error if the folder contains other files, so that a mistyped --state-dir does
// not fill it.
func (s *Store) checkEmpty() error {
	entries, err := readDir(s.dir)
	if err != nil {
		return err
	}

	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // temporary names, .gitignore, .nfs files
			continue
		}
		return fmt.Errorf(
			"%s is not a state folder: it contains %q and no file named format; give --state-dir an empty folder, a new one, "+
				"or one created by aicplan",
			s.dir,
			e.Name(),
		)
	}

	return nil
}
