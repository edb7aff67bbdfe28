package tree

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"aicplan/sink/atomic"
)

// Reuse is a reuse.yaml: tables that stand in from another version of the same
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

// Check says which field is empty.
func (r ReuseEntry) Check() error {
	for _, f := range [][2]string{{"table", r.Table}, {"from_version", r.FromVersion}, {"reason", r.Reason}, {"approved_by", r.ApprovedBy}} {
		if strings.TrimSpace(f[1]) == "" {
			return fmt.Errorf("the reuse of %q has no %s; every entry needs table, from_version, reason and approved_by", r.Table, f[0])
		}
	}
	return nil
}

// ParseReuse reads the text of a reuse.yaml.
func ParseReuse(data []byte) (*Reuse, error) {
	var r Reuse
	if err := yaml.Unmarshal(data, &r); err != nil {
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

// UpdateReuse sets entries of the reuse.yaml at path by table and leaves the
// others alone. A folder below comm must not have one.
func UpdateReuse(path string, entries []ReuseEntry) error {
	r := &Reuse{SchemaVersion: 1}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	default:
		if r, err = ParseReuse(data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, e := range entries {
		if err := e.Check(); err != nil {
			return err
		}
		if i := slices.IndexFunc(r.Entries, func(o ReuseEntry) bool { return o.Table == e.Table }); i >= 0 {
			r.Entries[i] = e
		} else {
			r.Entries = append(r.Entries, e)
		}
	}
	slices.SortFunc(r.Entries, func(a, b ReuseEntry) int { return strings.Compare(a.Table, b.Table) })
	out, err := encode(r)
	if err != nil {
		return err
	}
	_, err = atomic.WriteFile(path, out)
	return err
}
