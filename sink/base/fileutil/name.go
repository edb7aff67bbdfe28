package fileutil

import (
	"fmt"
	"strings"

	"aicplan/sink/base/textutil"
)

// maxName is how many bytes a file or a folder may have in its name on the file
// systems in use; the files that are renamed to it need a few more.
const maxName = 240

// BadName says why no file should have a path as its name, or "": what a terminal
// acts on, and what no file system takes.
func BadName(path string) string {
	if r, found := textutil.Control(path); found {
		return fmt.Sprintf("holds the control character %U", r)
	}
	for part := range strings.SplitSeq(path, "/") {
		if len(part) > maxName {
			return fmt.Sprintf("has a part of %d bytes; %d are the most", len(part), maxName)
		}
	}
	return ""
}
