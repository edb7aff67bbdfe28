package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
)

// Meta is a collection_meta.yaml: what a folder of perf files rests on.
type Meta struct {
	SchemaVersion int `yaml:"schema_version" json:"schema_version"`

	// Provenance is that of all tables together, or legacy.
	Provenance string `yaml:"provenance,omitempty" json:"provenance,omitempty"`

	Runtime Runtime              `yaml:"runtime" json:"runtime"`
	Tables  map[string]TableMeta `yaml:"tables" json:"tables"`
}

// Runtime describes what measured the rows.
type Runtime struct {
	Framework   string `yaml:"framework" json:"framework"`
	Version     string `yaml:"version" json:"version"`
	Image       string `yaml:"image,omitempty" json:"image,omitempty"`
	ImageDigest string `yaml:"image_digest,omitempty" json:"image_digest,omitempty"`
}

// Statuses of a table.
const (
	Complete = "complete"
	Partial  = "partial"
)

// TableMeta is the entry of one table.
type TableMeta struct {
	// CollectorRef is a git commit, CollectorHash the digest of what measured (op, runtime, environment), and
	// CasePlanHash that of the sorted ids of the planned cases.
	CollectorRef  string `yaml:"collector_ref,omitempty" json:"collector_ref,omitempty"`
	CollectorHash string `yaml:"collector_hash,omitempty" json:"collector_hash,omitempty"`
	CasePlanHash  string `yaml:"case_plan_hash,omitempty" json:"case_plan_hash,omitempty"`

	CollectedAt string `yaml:"collected_at,omitempty" json:"collected_at,omitempty"` // date of the newest row
	Rows        *int64 `yaml:"rows,omitempty" json:"rows,omitempty"`
	Status      string `yaml:"status" json:"status"`
	// DataHash is the digest of the perf file.
	DataHash string `yaml:"data_hash,omitempty" json:"data_hash,omitempty"`
	// CollectedRows, ImportedRows and UnknownRows are the origins of the rows of a table that was not
	// collected as a whole. They add up to Rows. Unknown rows were kept from a file that records no
	// origin per row.
	CollectedRows int64 `yaml:"collected_rows,omitempty" json:"collected_rows,omitempty"`
	ImportedRows  int64 `yaml:"imported_rows,omitempty" json:"imported_rows,omitempty"`
	UnknownRows   int64 `yaml:"unknown_rows,omitempty" json:"unknown_rows,omitempty"`
	// Collections are the events of schema 2, which has nothing above but rows and
	// status.
	Collections []Event `yaml:"collections,omitempty" json:"collections,omitempty"`
}

// EmptyPlanHash is the case plan hash of no cases at all: the mark of a
// sidecar that was written without evidence.
var EmptyPlanHash = fileutil.Digest(nil)

// CasePlanHash digests the ids of a plan's cases; their order does not count.
// The ids must be sorted.
func CasePlanHash(sorted []string) string {
	return fileutil.Digest([]byte(strings.Join(sorted, "\n")))
}

// ReadMeta reads a collection_meta.yaml. A missing file is fs.ErrNotExist.
func ReadMeta(path string) (*Meta, error) {
	data, err := fileutil.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := ParseMeta(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return m, nil
}

// EntryDigest returns the digest of what the text of a sidecar states about one table and its runtime.
func EntryDigest(data []byte, table string) (string, error) {
	m, err := ParseMeta(data)
	if err != nil {
		return "", err
	}

	own := Meta{Runtime: m.Runtime, Tables: map[string]TableMeta{table: m.Tables[table]}}
	if m.Provenance != m.Together() {
		own.Provenance = m.Provenance // otherwise it follows from the tables, also from others
	}
	return fileutil.Digest(encode(own)), nil
}

// Changed compares a file with the digest that its export recorded, and the entry of its table in the sidecar with
// entry, unless that is "". It returns the path of the first that differs and what happened to it, or "".
func Changed(path, digest, entry string) (changed, how string) {
	now, err := fileutil.DigestFile(path)
	if err == nil && now == digest && entry != "" {
		table := catalog.Stem(path)
		path, digest = filepath.Join(filepath.Dir(path), MetaFile), entry
		var data []byte
		if data, err = fileutil.ReadText(path); err == nil {
			now, _ = EntryDigest(data, table) // a text without a digest is another one
		}
	}

	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, "is not there any more"
	case err != nil:
		reason := fileutil.Explain("read", path, err).Error()
		return path, "cannot be read: " + strings.TrimPrefix(reason, "cannot read "+path+": ")
	case now != digest:
		return path, "was changed since"
	}
	return "", ""
}

// ParseMeta reads the text of a collection_meta.yaml of schema 1 or 2.
func ParseMeta(data []byte) (*Meta, error) {
	var m Meta
	if err := decodeOne(data, &m, false); err != nil {
		return nil, fmt.Errorf("it is not a valid %s: %w", MetaFile, err)
	}
	if m.SchemaVersion != 1 && m.SchemaVersion != 2 {
		return nil, fmt.Errorf("schema_version is %d; 1 and 2 are known", m.SchemaVersion)
	}
	if m.Runtime.Framework == "" || m.Runtime.Version == "" {
		return nil, errors.New("runtime.framework and runtime.version must be there")
	}

	for name, t := range m.Tables {
		if t.Status != Complete && t.Status != Partial {
			return nil, fmt.Errorf("tables.%s.status is %q; it must be complete or partial", name, t.Status)
		}
		if t.Rows != nil && *t.Rows < 0 {
			return nil, fmt.Errorf("tables.%s.rows is %d", name, *t.Rows)
		}

		switch {
		case m.SchemaVersion == 2:
			if err := t.checkEvents(); err != nil {
				return nil, fmt.Errorf("tables.%s: %w", name, err)
			}
		case len(t.Collections) > 0:
			return nil, fmt.Errorf("tables.%s.collections needs schema_version 2", name)
		}
	}

	return &m, nil
}

// Update configures NextMeta.
type Update struct {
	Table string
	Entry TableMeta
	// Schema is the schema to write, 1 or 2; 0 takes that of the file. A file of
	// schema 2 stays one.
	Schema int
	// Kept counts the rows that were in the table before and stay in it.
	Kept int
}

// NextMeta returns the text of a sidecar after the entry of one table was set. The provenance follows from
// all entries. Other entries, comments and unknown keys stay. data is the current text, or nil if there is no
// file yet. path is used in messages. NextMeta reports an error for the sidecar of another runtime, for a
// legacy sidecar, and for rows without evidence in schema 2.
func NextMeta(data []byte, path string, rt Runtime, u Update) ([]byte, error) {
	table, entry := u.Table, u.Entry
	old := &Meta{SchemaVersion: max(u.Schema, 1), Provenance: Collected, Runtime: rt}
	otherwise := "write schema 1"

	if data != nil {
		var err error
		if old, err = ParseMeta(data); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := old.fits(path, rt); err != nil {
			return nil, err
		}

		otherwise = "export into a folder whose sidecar has schema 1"
	}

	upgrade := u.Schema == 2 && old.SchemaVersion == 1
	var err error
	if upgrade {
		if old, err = old.upgraded(table, u.Kept); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}

	if old.SchemaVersion == 2 {
		if entry, err = entry.second(u.Kept); err != nil {
			return nil, fmt.Errorf("%s, %s: %w; set collector_ref, or %s", path, table, err, otherwise)
		}
		if before, ok := old.Tables[table]; ok {
			entry = entry.after(before, u.Kept)
		}
	}

	if old.Tables == nil {
		old.Tables = map[string]TableMeta{}
	}
	old.Tables[table] = entry

	if data == nil {
		old.Provenance = old.Together()
		return encode(old), nil
	}

	out, err := edited(data, func(root *yaml.Node) {
		if upgrade {
			child(root, "schema_version").SetString("2")
			child(root, "schema_version").Tag = "!!int"
			for name, t := range old.Tables {
				setTable(root, name, t)
			}
		}

		setTable(root, table, entry)
		if word := old.Together(); word != old.Provenance {
			setProvenance(root, word)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// fits returns an error if rows of a runtime do not belong into the sidecar.
func (m *Meta) fits(path string, rt Runtime) error {
	switch {
	case m.Provenance == Legacy:
		return fmt.Errorf("%s has provenance: legacy, so its tables have no evidence of how they were collected; new "+
			"entries are not mixed into it. Export into a new version folder, or remove the sidecar together with the "+
			"tables that it covers", path)
	case !strings.EqualFold(m.Runtime.Framework, rt.Framework) || m.Runtime.Version != rt.Version:
		return fmt.Errorf(
			"%s describes %s %s, and the data comes from %s %s; export it into a folder of its own version", path,
			m.Runtime.Framework, m.Runtime.Version, rt.Framework, rt.Version)
	case m.Runtime.ImageDigest != "" && rt.ImageDigest != "" && m.Runtime.ImageDigest != rt.ImageDigest:
		return fmt.Errorf("%s describes the image %s, and the data comes from %s",
			path, m.Runtime.ImageDigest, rt.ImageDigest)
	}

	return nil
}

// setTable replaces or inserts tables.<table>, tables in name order.
func setTable(root *yaml.Node, table string, entry TableMeta) {
	tables, value := mapping(root, "tables"), nodeOf(entry)
	at := len(tables.Content)
	for i := 0; i < len(tables.Content); i += 2 {
		switch name, old := tables.Content[i].Value, tables.Content[i+1]; {
		case name == table && old.Kind == yaml.MappingNode:
			setFields(old, value, entryKeys)
			return
		case name == table:
			*old = *value
			return
		case name > table:
			at = min(at, i)
		}
	}

	insert(tables, at, table, value)
}

var entryKeys = strings.Fields(`
	collector_ref collector_hash case_plan_hash collected_at rows status data_hash collected_rows imported_rows
	unknown_rows collections`)

func child(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}

	return nil
}

func encode(v any) []byte {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(v), enc.Close()); err != nil {
		panic("tree: " + err.Error()) // cannot happen for nodes, and for texts and numbers
	}
	return buf.Bytes()
}
