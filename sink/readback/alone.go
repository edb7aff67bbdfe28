package readback

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
	"aicplan/sink/tree"
)

// alone creates a folder with the tables of one version and the specs of systems, and
// nothing else. Some packages complete a version from its neighbours, and would answer from
// rows that are not under test. The caller removes the folder.
func alone(dir string, o Options) (folder string, remove func(), err error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	scan, err := tree.Walk(root)
	if err != nil {
		return "", nil, err
	}
	own, err := fileutil.NewTempFolder("read-back")
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			own.Remove()
			err = fmt.Errorf("a folder to read %s from: %w", dir, err)
		}
	}()
	// The folder has a file of its own, of which the package must not see anything.
	folder = filepath.Join(own.Path, "tables")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", nil, err
	}
	// Symbolic links, because tables are large.
	link := func(rel string) error {
		at := filepath.Join(folder, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		err := os.Symlink(filepath.Join(root, filepath.FromSlash(rel)), at)
		if errors.Is(err, fs.ErrExist) {
			return nil // a folder of several tables
		}
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			if err := link(e.Name()); err != nil {
				return "", nil, err
			}
		}
	}
	for _, e := range scan.Entries {
		if o.reads(e) {
			if err := link(e.Dir()); err != nil {
				return "", nil, err
			}
		}
	}
	return folder, own.Remove, nil
}

// reads reports whether a table belongs to the version under test. The version of a library
// of collectives follows from the system.
func (o Options) reads(e tree.Entry) bool {
	own := e.Backend == o.Backend && e.Version == o.Version || catalog.IsLibrary(e.Backend)
	return own && e.System == o.System && e.Layout != tree.Flat
}
