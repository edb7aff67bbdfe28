package readback

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"go.yaml.in/yaml/v3"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

//go:embed queries.json
var queriesJSON []byte

// asked returns the tables for which the package has a query. Axes are those along which it is
// asked beside the rows as well: between measured points it interpolates, and there the order of
// rows shows. Kernel is true if the query names the kernel.
var asked = fileutil.Embedded[map[string]struct {
	Axes   []string
	Kernel bool
}]("queries.json", queriesJSON)

// source is a table of the database with the questions about it.
type source struct {
	name, path string
	rows       int
	queries    []query
	unread     string // why the package does not read this table, "" where it does
}

// Version is a backend's version in a database.
type Version struct{ System, Backend, Version string }

// Versions lists what a database has tables of, those of libraries of collectives
// apart: their version follows from the system.
func Versions(dir string) ([]Version, error) {
	scan, err := tree.Walk(dir)
	if err != nil {
		return nil, err
	}
	seen := map[Version]bool{}
	for _, e := range scan.Entries {
		if e.Layout != tree.Flat && !catalog.IsLibrary(e.Backend) {
			seen[Version{e.System, e.Backend, e.Version}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Version) int {
		return cmp.Or(strings.Compare(a.System, b.System), strings.Compare(a.Backend, b.Backend),
			tree.CompareVersions(a.Version, b.Version))
	}), nil
}

func tablesOf(dir string, o Options) ([]source, error) {
	scan, err := tree.Walk(dir)
	if err != nil {
		return nil, err
	}
	entries := slices.DeleteFunc(scan.Entries, func(e tree.Entry) bool { return !o.reads(e) })
	named, err := librariesOf(dir, o.System)
	if err != nil {
		return nil, err
	}
	var out []source
	for _, e := range entries {
		rec, err := tree.ReadFile(filepath.Join(dir, e.Path))
		if err != nil {
			return nil, err
		}
		s := source{
			name:   e.Table,
			path:   e.Path,
			rows:   table.Len(rec),
			unread: cmp.Or(named.unread(e, entries), severalModels(e.Table, rec)),
		}
		if s.unread == "" {
			s.queries = queriesOf(e.Table, rec, o.Rows)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no table of %s %s %s in the layout families or systems", dir, o.System,
			o.Backend, o.Version)
	}
	return out, nil
}

// libraries are the versions of the libraries of collectives that a system's spec
// names.
type libraries map[string]string

// librariesOf reads the versions from the spec of a system. It returns nil if there is no
// spec, which the package reports.
func librariesOf(dir, system string) (libraries, error) {
	path := filepath.Join(dir, system+".yaml")
	data, err := fileutil.ReadText(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var spec struct {
		Misc struct {
			NCCL   string `yaml:"nccl_version"`
			OneCCL string `yaml:"oneccl_version"`
		} `yaml:"misc"`
	}
	if err := yaml.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return libraries{"nccl": spec.Misc.NCCL, "oneccl": spec.Misc.OneCCL}, nil
}

// unread returns why the package answers without a library's table, or "": it reads one
// version of it, and oneCCL's only if there is no table of NCCL.
func (l libraries) unread(e tree.Entry, all []tree.Entry) string {
	version, known := l[e.Backend]
	switch {
	case !known:
		return ""
	case version != e.Version:
		return fmt.Sprintf("the package reads %s %s, as %s.yaml states, and not this table", e.Backend,
			cmp.Or(version, "of no version"), e.System)
	case e.Backend == "oneccl" && slices.ContainsFunc(all, func(x tree.Entry) bool {
		return x.Table == "nccl_perf" && x.Version == l["nccl"]
	}):
		return "the package reads NCCL's table, and this one only if there is none"
	}
	return ""
}

// severalModels returns why a module of latent attention is not queried, or "". If a file
// has rows of several models, the query selects one by the heads of the whole model, and a
// row has those of one rank.
func severalModels(name string, rec arrow.Record) string {
	if name != "mla_context_module_perf" && name != "mla_generation_module_perf" {
		return ""
	}
	models, err := table.Strings(rec, "model")
	if err != nil {
		return ""
	}
	if at := slices.IndexFunc(models.Values, func(m string) bool { return m != models.Values[0] }); at > 0 {
		return fmt.Sprintf(
			"it has rows of several models, %s and %s among them, and the query takes the heads of the whole model, which no "+
				"row has",
			models.Values[0],
			models.Values[at],
		)
	}
	return ""
}

// queriesOf asks about n rows at equal distances, and beside each along each axis.
func queriesOf(name string, rec arrow.Record, n int) []query {
	how, ok := asked()[name]
	if !ok {
		return nil
	}

	rows := table.Len(rec)
	n = min(n, rows)
	var out []query
	for i := range n {
		row := rowOf(rec, i*rows/n)
		// Which kernel of several, other queries do not say.
		if !how.Kernel {
			delete(row, "kernel_source")
		}
		out = append(out, query{name, row, ownTime(name, row)})
		for _, axis := range how.Axes {
			if v, ok := row[axis].(int64); ok && v > 0 {
				beside := maps.Clone(row)
				beside[axis] = v + v/4 + 1
				out = append(out, query{name, beside, math.NaN()})
			}
		}
	}
	return out
}

// ownTime returns the time of a row itself, in milliseconds as the package answers.
func ownTime(name string, row map[string]any) float64 {
	m := catalog.SchemaOf(name).Primary()
	v, ok := row[m.Name].(float64)
	switch {
	case !ok:
		return math.NaN()
	case m.Unit == "us":
		return v / 1000
	}
	return v
}

// rowOf returns the numbers, texts and flags of a row.
func rowOf(rec arrow.Record, at int) map[string]any {
	out := table.Row(rec, at)
	maps.DeleteFunc(out, func(_ string, v any) bool {
		switch v := v.(type) {
		case int64, string, bool:
			return false
		case float64:
			return math.IsNaN(v) || math.IsInf(v, 0) // JSON has no such numbers
		}
		return true
	})
	return out
}
