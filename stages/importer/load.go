package importer

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// Options select and complete the imported rows.
type Options struct {
	Table, System, Backend, Version     string
	Framework, FrameworkVersion, Device string
	// Tables are the built-in tables and those that the plan declares.
	Tables *catalog.Catalog
}

// File is one file that was read.
type File struct {
	Path   string // as opened
	Digest string
	Rows   int
	tree.Entry
}

// Set is the result of an import.
type Set struct {
	Data  *stage.Dataset
	Files []File
	// Drift lists the differences between files and the descriptions of their tables.
	Drift []string
}

// Load reads a file, or the files of one table below a folder, as one dataset.
func Load(path string, o Options) (*Set, error) {
	entries, err := choose(path, o)
	if err != nil {
		return nil, err
	}

	set := &Set{}
	var recs []arrow.Record
	for _, e := range entries {
		full := path
		if e.Path != "." {
			full = filepath.Join(path, filepath.FromSlash(e.Path))
		}

		data, err := fileutil.ReadFile(full)
		if err != nil {
			return nil, err
		}

		rec, err := tree.Decode(full, data)
		if err != nil {
			return nil, err
		}

		rec, drift, err := conform(full, e, rec, o)
		if err != nil {
			return nil, err
		}

		set.Drift = append(set.Drift, drift...)
		set.Files = append(set.Files, File{Path: full, Digest: fileutil.Digest(data), Rows: table.Len(rec), Entry: e})
		recs = append(recs, rec)
	}

	rec, err := table.Concat(recs...)
	if err != nil {
		return nil, fmt.Errorf("the files of %s do not fit together: %w", path, err)
	}

	set.Data = &stage.Dataset{Table: rec, Info: info(rec, set.Files, o)}
	return set, nil
}

// choose lists the files to read. All are of one table.
func choose(path string, o Options) ([]tree.Entry, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fileutil.Explain("read", path, err)
	}

	if !st.IsDir() {
		e, ok := tree.Parse(filepath.Dir(path), filepath.Base(path))
		if !ok {
			// Any name will do for a file that the plan names itself.
			e = tree.Entry{Place: tree.Place{Table: catalog.Stem(path)}, Layout: tree.Flat}
		}

		e.Path = "."
		if o.Table != "" {
			e.Table = catalog.Stem(o.Table)
		}
		return []tree.Entry{o.declared(e)}, nil
	}

	scan, err := tree.Walk(path)
	if err != nil {
		return nil, err
	}

	var out []tree.Entry
	for _, e := range scan.Entries {
		if matches(o.Table, e.Table) && matches(o.System, e.System) && matches(o.Backend, e.Backend) &&
			matches(o.Version, e.Version) {
			out = append(out, o.declared(e))
		}
	}

	tables := distinct(out, func(e tree.Entry) string { return e.Table })
	switch {
	case len(scan.Entries) == 0:
		return nil, fmt.Errorf("%s contains no perf files (*_perf.txt, *_perf.csv, *_perf.parquet)", path)
	case len(out) == 0:
		return nil, fmt.Errorf(
			"none of the %d perf files below %s is one of table %q, system %q, backend %q and version %q; there are the "+
				"tables %s, the backends %s and the versions %s",
			len(scan.Entries),
			path,
			o.Table,
			o.System,
			o.Backend,
			o.Version,
			list(scan.Entries, func(e tree.Entry) string { return e.Table }),
			list(scan.Entries, func(e tree.Entry) string { return e.Backend }),
			list(scan.Entries, func(e tree.Entry) string { return e.Version }),
		)
	case len(tables) > 1:
		return nil, fmt.Errorf("%s contains several tables (%s); an import reads one of them: select it with \"table\"",
			path, strings.Join(tables, ", "))
	}

	return out, nil
}

// declared completes the description of a table that the plan declares.
func (o Options) declared(e tree.Entry) tree.Entry {
	if d := o.Tables.DeclaredFor(e.Table, ""); d != nil {
		e.Declared, e.Family = d, d.Family
	}
	return e
}

func matches(want, have string) bool {
	return want == "" || catalog.Stem(want) == have || want == have
}

func distinct[E any](entries []E, of func(E) string) []string {
	var out []string
	for _, e := range entries {
		out = append(out, of(e))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func list(entries []tree.Entry, of func(tree.Entry) string) string {
	return strings.Join(slices.DeleteFunc(distinct(entries, of), func(s string) bool { return s == "" }), ", ")
}

// info describes the rows. Fields whose values differ between rows are empty.
func info(rec arrow.Record, files []File, o Options) stage.Info {
	in := stage.Info{
		Framework: only(rec, "framework"), Version: only(rec, "version"), Device: only(rec, "device"), System: o.System,
	}

	systems := distinct(files, func(f File) string { return f.System })
	if in.System == "" && len(systems) == 1 {
		in.System = systems[0]
	}

	t, ok := files[0].Lookup()
	if !ok {
		in.Params = catalog.Shape(rec.Schema())
		return in
	}

	fromFolder(&in, t, files)
	in.Perf, in.Declared = t.Name, files[0].Declared
	in.Params = slices.DeleteFunc(t.Params(), func(c string) bool { return !table.Has(rec, c) })

	opName := only(rec, "op_name")
	for _, op := range catalog.Ops() {
		if op.Table == t.Name && (op.OpName == opName || in.Op == "" && len(t.OpNames) == 1) {
			in.Op = op.Name
		}
	}

	if in.Declared != nil && slices.Contains(in.Declared.Ops, opName) {
		in.Op = opName
	}

	if in.Op == "" && t.OpNameKey && table.Has(rec, "op_name") {
		in.Params = append([]string{"op_name"}, in.Params...)
	}

	return in
}

// fromFolder completes the framework and version of tables whose rows do not name them, from
// the folder of their files.
func fromFolder(in *stage.Info, t *catalog.Table, files []File) {
	at := files[0].Entry
	if slices.ContainsFunc(files, func(f File) bool { return f.Backend != at.Backend || f.Version != at.Version }) {
		return
	}

	if !t.Identified() {
		in.Framework, in.Version = t.Framework(at.Backend), at.Version
	}
	if in.Version == rules.KernelLevel {
		in.Version = cmp.Or(at.Version, in.Version)
	}
}

// only returns the value of a text column if all rows have the same, else "".
func only(rec arrow.Record, name string) string {
	values := table.Distinct(rec, name)
	if len(values) != 1 || rec.Column(table.Index(rec, name)).NullN() > 0 {
		return ""
	}
	return values[0]
}
