package readback

import (
	"cmp"
	"fmt"
	"os"
	"path"
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
	// Copies, because the package refuses tables that resolve to a place outside of the folder.
	add := func(rel string) error {
		from, to := filepath.Join(root, rel), filepath.Join(folder, rel)
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o600)
	}
	addFiles := func(rel string) error {
		entries, err := os.ReadDir(filepath.Join(root, rel))
		for _, e := range entries {
			info, statErr := os.Stat(filepath.Join(root, rel, e.Name()))
			if statErr == nil && info.Mode().IsRegular() {
				err = cmp.Or(err, add(path.Join(rel, e.Name())))
			}
		}
		return err
	}

	if err := addFiles("."); err != nil {
		return "", nil, err
	}

	folders := map[string]bool{}
	for _, e := range scan.Entries {
		if o.reads(e) && !folders[e.Dir()] {
			folders[e.Dir()] = true
			if err := addFiles(e.Dir()); err != nil {
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
