package systems

import (
	_ "embed"

	"aicplan/sink/base/fileutil"
)

// Kinds of values of fields.
const (
	whole  = "whole"
	number = "number"
	text   = "text"
	byGPUs = "by_gpus" // map from number of GPUs to bytes
)

// field is one key of the format with the plausible range of its value. Only values between Lo and
// Hi are accepted. Scales lists units that are often used by mistake, with the factor to convert
// them.
type field struct {
	Section, Key, Kind string
	Required           bool
	Unit               string
	Lo, Hi             float64
	Scales             []struct {
		Unit   string
		Factor float64
	}
}

func (f *field) path() string {
	if f.Section == "" {
		return f.Key
	}
	return f.Section + "." + f.Key
}

//go:embed fields.json
var fieldsJSON []byte

// fields returns the format in file order. The ranges are wide: they only detect wrong units, for
// example GB/s instead of bytes/s.
var fields = fileutil.Embedded[[]*field]("fields.json", fieldsJSON)

// sections are the mappings of the format.
var sections = []string{"gpu", "node", "misc"}

func fieldOf(section, key string) *field {
	for _, f := range fields() {
		if f.Section == section && f.Key == key {
			return f
		}
	}
	return nil
}

// keysOf returns the keys allowed in a section; "" is the top level of the file.
func keysOf(section string) []string {
	var keys []string
	for _, f := range fields() {
		if f.Section == section {
			keys = append(keys, f.Key)
		}
	}

	if section == "" {
		keys = append(keys, sections...)
	}
	return keys
}
