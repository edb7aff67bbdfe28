package readback

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// asked lists the tables for which the package has a query, and the axes along
// which it is asked beside the rows as well: between measured points it
// interpolates, and there the order of rows shows.
var asked = map[string][]string{
	"gemm_perf":                  {"m", "n", "k"},
	"context_attention_perf":     {"isl", "batch_size"},
	"generation_attention_perf":  {"step", "batch_size"},
	"encoder_attention_perf":     {"isl", "batch_size"},
	"context_mla_perf":           {"isl", "batch_size"},
	"generation_mla_perf":        {"step", "batch_size"},
	"mla_bmm_perf":               {"num_tokens"},
	"mla_context_module_perf":    {"isl", "batch_size"},
	"mla_generation_module_perf": {"step", "batch_size"},
	"dsa_context_module_perf":    {"isl", "batch_size"},
	"dsa_generation_module_perf": {"step", "batch_size"},
	"mamba2_perf":                {"batch_size"},
	"gdn_perf":                   {"batch_size"},
	"kda_perf":                   {"batch_size"},
	"mhc_module_perf":            {"num_tokens"},
	"moe_perf":                   {"num_tokens"},
	"custom_allreduce_perf":      {"message_size"},
	"nccl_perf":                  {"message_size"},
	"moe_a2a_perf":               {"num_tokens"},
}

// kernels are the tables of single kernels.
var kernels = []string{"mamba2_perf", "gdn_perf", "kda_perf"}

// source is a table of the database with the questions about it.
type source struct {
	name, path string
	rows       int
	queries    []query
}

// Version is a backend's version in a database.
type Version struct{ System, Backend, Version string }

// Versions lists what a database has tables of, NCCL's apart: their version
// follows from the system.
func Versions(dir string) ([]Version, error) {
	scan, err := tree.Walk(dir)
	if err != nil {
		return nil, err
	}
	seen := map[Version]bool{}
	for _, e := range scan.Entries {
		if e.Layout != tree.Flat && e.Table != "nccl_perf" {
			seen[Version{e.System, e.Backend, e.Version}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Version) int {
		return cmp.Or(strings.Compare(a.System, b.System), strings.Compare(a.Backend, b.Backend), tree.CompareVersions(a.Version, b.Version))
	}), nil
}

func tablesOf(dir string, o Options) ([]source, error) {
	scan, err := tree.Walk(dir)
	if err != nil {
		return nil, err
	}
	var out []source
	for _, e := range scan.Entries {
		if !o.reads(e) {
			continue
		}
		rec, err := tree.ReadFile(filepath.Join(dir, filepath.FromSlash(e.Path)))
		if err != nil {
			return nil, err
		}
		s := source{name: e.Table, path: e.Path, rows: int(rec.NumRows())}
		if axes, ok := asked[e.Table]; ok {
			if s.queries, err = queriesOf(e.Table, rec, axes, o.Rows); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Path, err)
			}
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no table of %s %s %s in the layout families or systems", dir, o.System, o.Backend, o.Version)
	}
	return out, nil
}

// queriesOf asks about n rows at equal distances, and beside each along each axis.
func queriesOf(name string, rec arrow.Record, axes []string, n int) ([]query, error) {
	rows := int(rec.NumRows())
	n = min(n, rows)
	var out []query
	for i := range n {
		row, err := rowOf(rec, i*rows/n)
		if err != nil {
			return nil, err
		}
		// Which kernel of several, only the queries for single kernels say.
		if !slices.Contains(kernels, name) {
			delete(row, "kernel_source")
		}
		out = append(out, query{name, row})
		for _, axis := range axes {
			if v, ok := row[axis].(int64); ok && v > 0 {
				beside := maps.Clone(row)
				beside[axis] = v + v/4 + 1
				out = append(out, query{name, beside})
			}
		}
	}
	return out, nil
}

// rowOf is a row as plain values; nulls are left out.
func rowOf(rec arrow.Record, at int) (map[string]any, error) {
	out := map[string]any{}
	for i, name := range table.Names(rec) {
		switch rec.Column(i).DataType().ID() {
		case arrow.INT64:
			col, err := table.Int64s(rec, name)
			if err != nil {
				return nil, err
			}
			if !col.Null(at) {
				out[name] = col.Values[at]
			}
		case arrow.FLOAT64:
			col, err := table.Float64s(rec, name)
			if err != nil {
				return nil, err
			}
			if !col.Null(at) {
				out[name] = col.Values[at]
			}
		case arrow.STRING, arrow.LARGE_STRING:
			col, err := table.Strings(rec, name)
			if err != nil {
				return nil, err
			}
			if !col.Null(at) {
				out[name] = col.Values[at]
			}
		}
	}
	return out, nil
}
