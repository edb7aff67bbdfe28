package atomic

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrOutside is what errors.Is finds in an error of Within.
var ErrOutside = errors.New("path leaves the output folder")

// Within returns the path of name below dir. It refuses names that are empty,
// absolute, climb out with "..", name the folder itself, or pass through a
// symbolic link that leads out of dir. Folders of name that do not exist yet
// are fine; nothing is created.
func Within(dir, name string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fmt.Errorf("%w: %q %s; give a path relative to %s that stays below it", ErrOutside, name, why, dir)
	}
	switch {
	case name == "":
		return refuse("is empty")
	case strings.ContainsRune(name, 0):
		return refuse("holds a NUL byte")
	case filepath.IsAbs(name) || strings.HasPrefix(name, `\`) || filepath.VolumeName(name) != "":
		return refuse("is absolute")
	case strings.HasSuffix(name, "/"):
		return refuse("names a folder")
	}
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if part == ".." {
			return refuse(`climbs with ".."`)
		}
	}
	clean := filepath.Clean(name)
	if clean == "." {
		return refuse("names the folder itself")
	}
	root, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(dir, clean), nil // nothing there that could lead out
	}
	if err != nil {
		return "", Explain("look at", dir, err)
	}
	at := root
	for part := range strings.SplitSeq(clean, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", Explain("look at", at, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		target, err := filepath.EvalSymlinks(at)
		if err != nil {
			// Dangling: writing would create the target, wherever that is.
			return refuse("passes through the broken symbolic link " + at)
		}
		if target != root && !strings.HasPrefix(target, root+string(filepath.Separator)) {
			return refuse("passes through a symbolic link to " + target)
		}
		at = target
	}
	return filepath.Join(dir, clean), nil
}
