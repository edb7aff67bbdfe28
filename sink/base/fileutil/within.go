package fileutil

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"aicplan/sink/base/textutil"
)

// Within returns the path of name below dir. It refuses names that are empty,
// absolute, climb out with "..", name the folder itself, or pass through a
// symbolic link that leads out of dir or is absolute. Folders of name that do not exist yet
// are fine; nothing is created.
func Within(dir, name string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fmt.Errorf("path leaves the output folder: %q %s; give a path relative to %s that stays below it", name,
			why, dir)
	}
	switch {
	case name == "":
		return refuse("is empty")
	case strings.ContainsRune(name, 0):
		return refuse("contains a NUL byte")
	case filepath.IsAbs(name) || strings.HasPrefix(name, `\`):
		return refuse("is absolute")
	case strings.HasSuffix(name, "/"):
		return refuse("names a folder")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return refuse(`climbs with ".."`)
		}
	}
	clean := filepath.Clean(name)
	if clean == "." {
		return refuse("names the folder itself")
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(dir, clean), nil // nothing there that could lead out
	}
	if err != nil {
		return "", Explain("look at", dir, err)
	}
	defer root.Close()
	// Folder by folder: a root opens nothing that a symbolic link leads out to.
	for at := range prefixes(clean) {
		_, err := root.Stat(at)
		switch link, readErr := root.Readlink(at); {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist) && readErr == nil:
			// Writing would create the target, wherever that is.
			return refuse("passes through the broken symbolic link " + filepath.Join(dir, at))
		case errors.Is(err, fs.ErrNotExist):
			return filepath.Join(dir, clean), nil
		case readErr == nil:
			if target, err := filepath.EvalSymlinks(filepath.Join(dir, at)); err == nil {
				link = target
			}
			return refuse("passes through a symbolic link to " + link)
		default:
			return "", Explain("look at", filepath.Join(dir, at), err)
		}
	}
	return filepath.Join(dir, clean), nil
}

// Below returns path itself if it is no folder, else the files below it whose names end in suffix. Folders whose names
// begin with a dot are not searched.
func Below(path, suffix string) (out []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, Explain("read", path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}

	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != path && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(p, suffix):
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

// prefixes yields a, a/b and a/b/c of a/b/c.
func prefixes(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, c := range path + string(filepath.Separator) {
			if c == filepath.Separator && !yield(path[:i]) {
				return
			}
		}
	}
}

// Place is Within for a file that is about to be written: it makes its folder.
func Place(dir, name string) (string, error) {
	path, err := Within(dir, name)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", Explain("make the folder of", path, err)
	}
	return path, nil
}

// maxName is the maximum length of one name in bytes. Temporary names are a few bytes
// longer.
const maxName = 240

// BadName returns why a path cannot be the name of a file, or "": control characters, which
// terminals interpret, and names that are too long for a file system.
func BadName(path string) string {
	if r, found := textutil.Control(path); found {
		return fmt.Sprintf("contains the control character %U", r)
	}
	for part := range strings.SplitSeq(path, "/") {
		if len(part) > maxName {
			return fmt.Sprintf("has a part of %d bytes; %d are the most", len(part), maxName)
		}
	}
	return ""
}

// PlainName replaces the characters of a text that are neither ASCII letters, digits nor those of also by underscores.
func PlainName(text, also string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(also, r) {
			return r
		}
		return '_'
	}, text)
}
