package textutil

import (
	"path"
	"strings"
)

// Folder is a folder with some files in it or below it.
type Folder struct {
	Path  string
	Count int
}

// Folders groups files, whose paths have slashes, by the folders directly below the deepest folder that
// contains all of them. If they are all in one folder, it returns that one.
func Folders(files []string) []Folder {
	if len(files) == 0 {
		return nil
	}

	common := path.Dir(files[0])
	for _, f := range files[1:] {
		for common != "." && common != "/" && !strings.HasPrefix(f, common+"/") {
			common = path.Dir(common)
		}
	}

	var out []Folder
	for _, f := range files {
		at := common
		if first, _, below := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(f, common), "/"), "/"); below {
			at = path.Join(common, first)
		}
		if n := len(out); n > 0 && out[n-1].Path == at {
			out[n-1].Count++
			continue
		}
		out = append(out, Folder{at, 1})
	}
	return out
}
