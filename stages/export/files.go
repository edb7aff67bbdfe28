package export

import (
	"path"
	"path/filepath"
	"strings"

	"aicplan/engine/stage"
)

var _ stage.FileWriter = (*Config)(nil)

// Files implements stage.FileWriter: the file of the table, if it is not merged with an existing file.
func (c *Config) Files(in stage.Forecasts, sample bool) []string {
	if c.attached() || c.merges() || sample && !c.AllowPartial {
		return nil
	}

	if name := c.planned(in, sample); name != "" {
		return []string{filepath.FromSlash(name)}
	}
	return nil
}

// PartialName returns the name of a file for data that lacks cases.
func PartialName(file string) string {
	ext := path.Ext(file)
	return strings.TrimSuffix(file, ext) + ".partial" + ext
}
