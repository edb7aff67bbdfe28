package export

import (
	"path/filepath"

	"aicplan/engine/stage"
	"aicplan/sink/tree"
)

var _ stage.FileWriter = (*Config)(nil)

// Files implements stage.FileWriter: the file of the flat layout, if it has a name and is
// not merged with an existing file.
func (c *Config) Files() []string {
	if c.Layout != tree.Flat || c.File == "" || c.merges() {
		return nil
	}
	return []string{filepath.Join(c.Dir, c.File)}
}
