// Package tree reads and writes database folders: their layouts, their sidecars (collection_meta.yaml,
// reuse.yaml), the tables below a root, and merges of new rows into a table. BuildMatrix reports which
// models a database covers.
package tree

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	version "github.com/aquasecurity/go-pep440-version"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
)

// Layout is how the files of a database are arranged.
type Layout string

// The layouts.
const (
	Flat     Layout = "flat"     // <table>.txt side by side
	Systems  Layout = "systems"  // data/<system>/<backend>/<version>/<table>.txt
	Families Layout = "families" // data/<system>/<family>/<backend>/<version>/<table>.parquet
)

// Layouts lists the layouts by name.
var Layouts = []Layout{Flat, Systems, Families}

// Place is the position of a table in a database.
type Place struct {
	System  string `json:"system,omitempty"`
	Family  string `json:"family,omitempty"`
	Backend string `json:"backend,omitempty"`
	Version string `json:"version,omitempty"`
	Table   string `json:"table"` // "gemm_perf"
}

// Dir is the folder of a place in a layout, slash-separated and relative to
// the database. An error names the part that is missing or cannot be a folder.
func (l Layout) Dir(p Place) (string, error) {
	var parts []string
	switch l {
	case Flat:
		return ".", nil
	case Systems:
		parts = []string{"system", p.System, "backend", p.Backend, "version", p.Version}
	case Families:
		parts = []string{"system", p.System, "family", p.Family, "backend", p.Backend, "version", p.Version}
	default:
		return "", fmt.Errorf("unknown layout %q; the layouts are flat, systems and families", l)
	}

	dir := []string{"data"}
	for i := 0; i < len(parts); i += 2 {
		if err := folderName(parts[i+1]); err != nil {
			return "", fmt.Errorf("the %s of the layout %q %w", parts[i], l, err)
		}
		dir = append(dir, parts[i+1])
	}

	return strings.Join(dir, "/"), nil
}

func folderName(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("is not known")
	case s == "." || s == ".." || strings.ContainsAny(s, `/\`+"\x00"):
		return fmt.Errorf("is %q, which cannot be the name of a folder", s)
	}

	return nil
}

// PlaceOf completes a place from the catalog: the family of the table, and the library that
// owns the table. NCCL's collectives are below nccl, whatever measured them.
func PlaceOf(p Place) Place {
	if t, ok := catalog.Lookup(p.Table); ok {
		p.Table = t.Name
		if p.Family == "" {
			p.Family = t.Family
		}
		p.Backend = cmp.Or(t.Library, p.Backend)
	}

	return p
}

// Entry is one perf file of a scanned tree.
type Entry struct {
	Place
	Path   string `json:"path"`   // slash-separated, relative to the root
	Format string `json:"format"` // "csv" or "parquet"
	Layout Layout `json:"layout"`
	// Declared is the description of a table that a plan declared, from the file beside it.
	Declared *catalog.Declaration `json:"-"`
}

// Lookup returns the perf table of the entry.
func (e Entry) Lookup() (*catalog.Table, bool) {
	if e.Declared != nil {
		t, err := e.Declared.Table()
		return t, err == nil
	}

	return catalog.Lookup(e.Table)
}

// Dir is the entry's folder relative to the root.
func (e Entry) Dir() string { return filepath.Dir(e.Path) }

// Sidecar is a collection_meta.yaml or reuse.yaml.
type Sidecar struct {
	Path string // slash-separated, relative to the root
	Name string // MetaFile or ReuseFile
}

// Names of the sidecars.
const (
	MetaFile  = "collection_meta.yaml"
	ReuseFile = "reuse.yaml"
)

// Scan is the content of a tree.
type Scan struct {
	Root     string
	Entries  []Entry
	Sidecars []Sidecar
	Markers  []string // leftover notes: INCOMPLETE.txt, SHARED_LAYER_REUSE.txt
	Other    []string // files that are none of these
}

// Walk scans root, which may be a database, a part of one, or one folder of
// perf files. Everything is in path order. Hidden files and folders are
// skipped, symbolic links are not followed.
func Walk(root string) (*Scan, error) {
	s := &Scan{Root: root}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fileutil.Explain("read", root, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; a folder with perf files is needed", root)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fileutil.Explain("read", path, err)
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if rel != "." && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}

		if d.Type().IsRegular() {
			s.add(rel, d.Name())
		}

		return nil
	})
	return s, err
}

func (s *Scan) add(rel, name string) {
	switch name {
	case MetaFile, ReuseFile:
		s.Sidecars = append(s.Sidecars, Sidecar{Path: rel, Name: name})
		return
	case "INCOMPLETE.txt", "SHARED_LAYER_REUSE.txt":
		s.Markers = append(s.Markers, rel)
		return
	}

	if strings.HasSuffix(name, catalog.SchemaFile("_perf")) {
		return // read with its table
	}
	if e, ok := Parse(s.Root, rel); ok {
		s.Entries = append(s.Entries, e)
		return
	}
	s.Other = append(s.Other, rel)
}

// backendFolders are the folder names that readers take for backends and not
// for families.
var backendFolders = []string{"trtllm", "sglang", "vllm", "nccl", "oneccl"}

// Parse reads a perf file's place from its path; ok is false for other files.
// Folders above root are consulted too, so that a part of a database keeps its
// meaning.
func Parse(root, rel string) (Entry, bool) {
	name := filepath.Base(rel)
	e := Entry{Path: rel, Layout: Flat}
	switch filepath.Ext(name) {
	case ".parquet":
		e.Format = "parquet"
	case ".txt", ".csv":
		e.Format = "csv"
	default:
		return Entry{}, false
	}

	e.Table = catalog.Stem(name)
	if !strings.HasSuffix(e.Table, "_perf") {
		return Entry{}, false
	}
	e.Declared = declaredAt(filepath.Join(root, e.Path), e.Table)
	if abs, err := filepath.Abs(root); err == nil {
		rel = filepath.Join(abs, rel)
	}
	dirs := strings.Split(strings.Trim(filepath.Dir(rel), "/"), "/")
	at := func(fromEnd int) string {
		if fromEnd > len(dirs) {
			return ""
		}

		return dirs[len(dirs)-fromEnd]
	}

	backend := at(2)
	_, known := catalog.LookupBackend(backend)
	if !known && !slices.Contains(backendFolders, backend) {
		return e, true
	}
	e.Version, e.Backend = at(1), backend
	ofFamily := func(t *catalog.Table) bool { return t.Family == at(3) }
	if slices.ContainsFunc(catalog.Tables(), ofFamily) || at(5) == "data" ||
		e.Declared != nil && e.Declared.Family == at(3) {
		e.Layout, e.Family = Families, at(3)
		e.System = at(4)
	} else {
		e.Layout, e.System = Systems, at(3)
	}
	if e.System == "data" {
		e.System = ""
	}
	if t, ok := e.Lookup(); ok && e.Family == "" {
		e.Family = t.Family
	}

	return e, true
}

// declaredAt reads the description beside the file of a declared table. It returns nil for
// a built-in table, and if there is no valid description.
func declaredAt(path, table string) *catalog.Declaration {
	if _, builtIn := catalog.Lookup(table); builtIn {
		return nil
	}
	data, err := fileutil.ReadFile(filepath.Join(filepath.Dir(path), catalog.SchemaFile(table)))
	if err != nil {
		return nil
	}
	d, err := catalog.ParseDeclaration(data)
	if err != nil || d.Name != table {
		return nil
	}

	return d
}

// TableOf returns the perf table of a file, from the catalog or from the description
// beside the file.
func TableOf(path string) (*catalog.Table, bool) {
	name := catalog.Stem(path)
	return Entry{Place: Place{Table: name}, Declared: declaredAt(path, name)}.Lookup()
}

// CompareVersions orders versions as Python does: 1.3.0rc2 < 1.3.0rc10 < 1.3.0.
// What Python would not take for a version is ordered by its text.
func CompareVersions(a, b string) int {
	x, errX := version.Parse(a)
	y, errY := version.Parse(b)
	if errX != nil || errY != nil {
		return cmp.Compare(a, b)
	}

	return x.Compare(y)
}

// Source is the code of this package: checkpoints of what follows from it are
// stale when it changes.
//
//go:embed *.go
var Source embed.FS
