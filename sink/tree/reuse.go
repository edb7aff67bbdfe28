package tree

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Reuse is a reuse.yaml: tables that are replaced by those of another version of the same
// backend.
type Reuse struct {
	SchemaVersion int          `yaml:"schema_version"`
	Entries       []ReuseEntry `yaml:"reuse"`
}

// ReuseEntry declares one table.
type ReuseEntry struct {
	Table       string `yaml:"table" json:"table"`
	FromVersion string `yaml:"from_version" json:"from_version"`
	Reason      string `yaml:"reason" json:"reason"`
	ApprovedBy  string `yaml:"approved_by" json:"approved_by"`
}

// Check returns an error that names the first empty field.
func (r ReuseEntry) Check() error {
	for _, f := range [][2]string{{"table", r.Table}, {"from_version", r.FromVersion}, {"reason", r.Reason},
		{"approved_by", r.ApprovedBy}} {
		if strings.TrimSpace(f[1]) == "" {
			return fmt.Errorf(
				"the reuse of %q has no %s; every entry needs table, from_version, reason and approved_by", r.Table,
				f[0])
		}
	}

	return nil
}

// ParseReuse reads the text of a reuse.yaml.
func ParseReuse(data []byte) (*Reuse, error) {
	var r Reuse
	if err := decodeOne(data, &r, false); err != nil {
		return nil, fmt.Errorf("it is not a valid %s: %w", ReuseFile, err)
	}
	if r.SchemaVersion != 1 {
		return nil, fmt.Errorf("schema_version is %d; 1 is known", r.SchemaVersion)
	}

	for _, e := range r.Entries {
		if err := e.Check(); err != nil {
			return nil, err
		}
	}

	return &r, nil
}

var reuseKeys = []string{"table", "from_version", "reason", "approved_by"}

// NextReuse returns the text of a reuse.yaml with entries set by table. Other entries,
// comments and unknown keys stay. data is the present text, nil if there is no file; path
// is for messages. A folder below comm must not have this file.
func NextReuse(data []byte, path string, entries []ReuseEntry) ([]byte, error) {
	for _, e := range entries {
		if err := e.Check(); err != nil {
			return nil, err
		}
	}

	if data == nil {
		data = []byte("schema_version: 1\nreuse: []\n")
	}
	if _, err := ParseReuse(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	out, err := edited(data, func(root *yaml.Node) {
		list := child(root, "reuse")
		if list == nil {
			list = &yaml.Node{}
			insert(root, len(root.Content), "reuse", list)
		}
		if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
			list.Kind, list.Tag, list.Value, list.Style, list.Content = yaml.SequenceNode, "!!seq", "", 0, nil
		}

		for _, e := range entries {
			setReuse(list, e)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// setReuse replaces the entry of a table, or puts it in by name.
func setReuse(list *yaml.Node, e ReuseEntry) {
	value, at := nodeOf(e), len(list.Content)
	for i, item := range list.Content {
		name := child(item, "table")
		switch {
		case name == nil:
		case name.Value == e.Table:
			setFields(item, value, reuseKeys)
			return
		case name.Value > e.Table:
			at = min(at, i)
		}
	}

	list.Content = slices.Insert(list.Content, at, value)
}
