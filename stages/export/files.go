package export

import (
	"path"
	"path/filepath"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/tree"
)

var _ stage.FileWriter = (*Config)(nil)

// Files implements stage.FileWriter: the file of the flat layout, if it has a name and is
// not merged with an existing file.
func (c *Config) Files(sample bool) []string {
	if c.Layout != tree.Flat || c.File == "" || c.merges() || sample && !c.AllowPartial {
		return nil
	}

	file := c.File
	if sample {
		file = partialName(file)
	}
	return []string{filepath.Join(c.Dir, file)}
}

// partialName returns the name of a file for data that lacks cases.
func partialName(file string) string {
	ext := path.Ext(file)
	return strings.TrimSuffix(file, ext) + ".partial" + ext
}
