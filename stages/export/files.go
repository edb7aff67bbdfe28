package export

import (
	"path"
	"path/filepath"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/tree"
)

var _ stage.FileWriter = (*Config)(nil)

// Files implements stage.FileWriter: the file of the table, if it is not merged with an existing file.
func (c *Config) Files(in stage.Forecasts, sample bool) []string {
	if c.attached() || c.merges() || sample && !c.AllowPartial {
		return nil
	}

	var info stage.Info
	if f := c.first(in); f != nil {
		info = f.Info
	}
	_, place, err := c.destination(info)
	if err != nil {
		return nil
	}
	t, err := c.target(tree.PlaceOf(place), sample)
	if err != nil {
		return nil // a part of its name is not known yet
	}
	return []string{filepath.FromSlash(t.name)}
}

// partialName returns the name of a file for data that lacks cases.
func partialName(file string) string {
	ext := path.Ext(file)
	return strings.TrimSuffix(file, ext) + ".partial" + ext
}
