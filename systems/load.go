package systems

import (
	"embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

//go:embed *.yaml
var builtin embed.FS

// Code contains the code of this package and its built-in specs. Cached results that depend on them
// become stale if they change.
//
//go:embed *.go *.yaml *.json
var Code embed.FS

// List returns the names of the built-in systems in alphabetical order.
func List() []string {
	entries, err := builtin.ReadDir(".")
	if err != nil {
		panic(err) // the files are embedded
	}

	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}

	slices.Sort(names)
	return names
}

// Load returns a built-in system. If there is none with that name, the error names similar ones, or all.
func Load(name string) (*Spec, error) {
	src, err := builtin.ReadFile(name + ".yaml")
	if err != nil {
		if near := textutil.Near(name, List(), 3); len(near) > 0 {
			return nil, fmt.Errorf("there is no system %q; did you mean %s?", name, strings.Join(near, " or "))
		}
		return nil, fmt.Errorf("there is no system %q; the known ones are %s", name, strings.Join(List(), ", "))
	}

	return parsed(name+".yaml", src)
}

// LoadFile reads a system from a YAML file and names it after the file. The error has type Problems
// if the content is invalid.
func LoadFile(path string) (*Spec, error) {
	src, err := fileutil.ReadText(path)
	if err != nil {
		return nil, err
	}

	return parsed(path, src)
}

func parsed(path string, src []byte) (*Spec, error) {
	spec, problems := Parse(path, src)
	if len(problems) > 0 {
		return nil, problems
	}
	return spec, nil
}

// Source returns the YAML text of a built-in system, or false if there is none with that name.
func Source(name string) ([]byte, bool) {
	src, err := builtin.ReadFile(name + ".yaml")
	return src, err == nil
}

func nameOf(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".yml")
}
