package tree

import (
	"fmt"
	"strings"
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
	if err := decodeOne(data, &r); err != nil {
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
