package readback

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

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
	folders := []string{"."}
	for _, e := range scan.Entries {
		if o.reads(e) && !slices.Contains(folders, e.Dir()) {
			folders = append(folders, e.Dir())
		}
	}

	for _, dir := range folders {
		if err := copyFiles(filepath.Join(root, dir), filepath.Join(folder, dir)); err != nil {
			return "", nil, err
		}
	}

	return folder, own.Remove, nil
}

// copyFiles copies the files of a folder. The package refuses links to tables outside of its folder.
func copyFiles(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}

	entries, err := os.ReadDir(from)
	for _, e := range entries {
		path := filepath.Join(from, e.Name())
		if info, statErr := os.Stat(path); statErr != nil || !info.Mode().IsRegular() {
			continue
		}

		data, copyErr := os.ReadFile(path)
		if copyErr == nil {
			copyErr = os.WriteFile(filepath.Join(to, e.Name()), data, 0o600)
		}
		err = cmp.Or(err, copyErr)
	}
	return err
}

// reads reports whether a table belongs to the version under test. The version of a library
// of collectives follows from the system.
func (o Options) reads(e tree.Entry) bool {
	own := e.Backend == o.Backend && e.Version == o.Version || catalog.IsLibrary(e.Backend)
	return own && e.System == o.System && e.Layout != tree.Flat
}
