// Package catalog is the one description of the perf tables: which columns a
// table has, in which order each backend writes them, their types and units,
// which of them name a row, and which words they may hold. Export, import,
// dedupe and gates all read it. It is data and lookups only.
package catalog

import (
	"embed"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
)

// Type is the physical type of a column. Perf files know int64, float64, strings and booleans.
type Type struct{ arrow.DataType }

// Role is the purpose of a column.
type Role int

const (
	// Identity columns open every row: framework, version, device, op_name and
	// kernel_source.
	Identity Role = iota
	// Key columns name a row; readers fail without them.
	Key
	// Optional columns are part of the key if they exist. If they do not, readers assume a
	// default.
	Optional
	// Needed columns are no part of the key; readers fail without them.
	Needed
	// Info columns are written and not read.
	Info
	// Metric columns are measured.
	Metric
)

// Column is one column of a table.
type Column struct {
	Name string
	Type Type
	Role Role
	Unit string // "ms", "us", "W", "GB/s"; empty without one
	Doc  string
	// Better defines which values of a metric are better.
	Better Direction
	// Lacking is true for metrics that a row may lack. A value that was not measured is
	// null.
	Lacking bool
	// Zero is true for metrics that may be zero while others of the row are not, such as
	// the wait for other ranks, and for sizes that may be nothing, such as tokens in the cache.
	Zero bool
}

// Direction defines which values of a metric are better.
type Direction int

// The directions.
const (
	Lower  Direction = iota // times
	Higher                  // rates
)

func (d Direction) String() string {
	if d == Higher {
		return "higher"
	}
	return "lower"
}

// Repeats defines how readers of a table handle rows of one file that repeat a key.
type Repeats int

// What they do.
const (
	TakeFirst Repeats = iota
	TakeLast
	GiveUp // on the whole table
)

// Table is one perf table.
type Table struct {
	Name   string // "gemm_perf"
	Family string // folder of the table in a database: "gemm"
	// OpNames are the words of the op_name column; nil when a benchmark may
	// write any.
	OpNames []string `json:"op_names"`
	// OpNameKey is true if op_name is part of the key, because two ops share the table.
	OpNameKey bool `json:"op_name_key"`
	// KernelSourceKey is true if kernel_source is part of the key, because several kernels
	// of one shape have rows.
	KernelSourceKey bool `json:"kernel_source_key"`
	// Lanes are the kernels whose rows readers keep apart from those of other kernels: a
	// part of the kernel name, or "*" for every kernel.
	Lanes string
	// ZeroLegal is true when zero is a value of the first metric, not a fault.
	ZeroLegal bool `json:"zero_legal"`
	// Repeats is what readers do with rows that repeat a key.
	Repeats Repeats
	// Library is the folder of a table of a library, such as NCCL. It is empty for tables
	// of backends.
	Library string
	// Legacy is true for tables that are read but no longer written.
	Legacy bool
	// Open is true for tables of this project that no published database has. A grid may
	// add columns to their key.
	Open bool
	// Declared is true for tables that a plan declares. Published readers do not read them, so that their
	// texts have no vocabulary, and nothing is known of the shape of their kernels.
	Declared bool
	// Doc is one line on what the rows are.
	Doc string

	Rows   []string            // the order of the rows, see FileOrder
	Orders map[string][]string // other orders of the columns, by backend
	Labels map[string]string   // framework labels that differ from the backend's
	Words  map[string]string   // spellings by "backend column word"
	// Takes are the only values, as text, that readers accept in a column. Without an entry, they accept any, or any of
	// the column's vocabulary (function Words). A reader that finds another value rejects the whole table.
	Takes map[string][]string

	columns []Column
}

// Lookup finds a table by name; the extensions ".txt", ".csv" and ".parquet"
// of its file are allowed.
func Lookup(name string) (*Table, bool) {
	return (*Catalog)(nil).Lookup(name)
}

// IsLibrary reports whether a folder of a database belongs to a library, such as NCCL, and
// not to a backend.
func IsLibrary(folder string) bool {
	return folder != "" && slices.ContainsFunc(builtIn().tables, func(t *Table) bool { return t.Library == folder })
}

// Stem strips the folder and extension of a perf file's name: the rest is the
// table's name.
func Stem(file string) string {
	if i := strings.LastIndexAny(file, `/\`); i >= 0 {
		file = file[i+1:]
	}
	for _, ext := range []string{".parquet", ".txt", ".csv"} {
		file = strings.TrimSuffix(file, ext)
	}
	return file
}

// Tables returns all tables, grouped by family. The slice is the caller's, the
// tables are shared and must not be changed.
func Tables() []*Table { return slices.Clone(builtIn().tables) }

// Suggest returns names of built-in tables that are similar to name, best first.
func Suggest(name string) []string { return (*Catalog)(nil).Suggest(name) }

// Columns returns the columns in the order in which a backend's collector
// writes them; an unknown or empty backend gets the common order. With power,
// the two power columns close the row.
func (t *Table) Columns(backend string, power bool) []Column {
	cols := slices.Clone(t.columns)
	if order, ok := t.Orders[backend]; ok {
		cols = t.sorted(order)
	}
	if power {
		cols = append(cols, builtIn().power...)
	}
	return cols
}

// sorted returns the columns in an order, after the identity columns that it does not list.
func (t *Table) sorted(order []string) []Column {
	cols := slices.DeleteFunc(slices.Clone(t.columns), func(c Column) bool {
		return c.Role != Identity || slices.Contains(order, c.Name)
	})
	for _, name := range order {
		c, _ := t.Column(name)
		cols = append(cols, c)
	}
	return cols
}

// Extra returns the columns that follow those of Columns if the data has them.
func (t *Table) Extra() []Column {
	return slices.DeleteFunc(slices.Clone(builtIn().extra), func(c Column) bool {
		return slices.ContainsFunc(t.columns, func(own Column) bool { return own.Name == c.Name })
	})
}

// Identified reports whether the rows name their framework, version, device and op. Rows of
// other tables name their kernel only.
func (t *Table) Identified() bool {
	return slices.ContainsFunc(t.columns, func(c Column) bool { return c.Name == "framework" })
}

// Column returns one column by name, the power columns and extra columns included.
func (t *Table) Column(name string) (Column, bool) {
	for _, cols := range [][]Column{t.columns, builtIn().power, builtIn().extra} {
		if i := slices.IndexFunc(cols, func(c Column) bool { return c.Name == name }); i >= 0 {
			return cols[i], true
		}
	}
	return Column{}, false
}

// FileOrder returns the columns that the rows of a perf file are sorted by; "-name" sorts
// from the largest value on. Most tables are sorted by their key. Readers interpolate
// between the shapes of gemm_perf and take the first of two shapes at equal distance, so
// its rows are in the order of upstream's files: largest first. In custom_allreduce_perf
// the row of a graph precedes the eager row of the same size.
func (t *Table) FileOrder(key []string) []string {
	out := slices.Clone(t.Rows)
	for _, k := range key {
		if !slices.Contains(out, k) && !slices.Contains(out, "-"+k) {
			out = append(out, k)
		}
	}
	return out
}

// Key returns the columns that identify a row for a reader, in table order: op_name and
// kernel_source if they are part of the key, then key and optional columns. Rows with equal
// keys are duplicates: see Repeats.
func (t *Table) Key() []string {
	var key []string
	if t.OpNameKey {
		key = append(key, "op_name")
	}
	if t.KernelSourceKey {
		key = append(key, "kernel_source")
	}
	return append(key, t.names(func(c Column) bool { return c.Role == Key || c.Role == Optional })...)
}

// lane returns the lane of the rows of a kernel. Most kernels have the lane "".
func (t *Table) lane(kernel string) string {
	switch {
	case t.Lanes == "*":
		return kernel
	case t.Lanes != "" && strings.Contains(kernel, t.Lanes):
		return t.Lanes
	}
	return ""
}

// Required returns the columns that readers fail without: the key without its
// optional columns, others that they need, and the metrics that every row has.
func (t *Table) Required() []string {
	names := slices.DeleteFunc(t.Key(), func(k string) bool {
		c, _ := t.Column(k)
		return c.Role == Optional
	})
	names = append(names, t.names(func(c Column) bool { return c.Role == Needed })...)
	return append(names, t.Schema().Required()...)
}

// Metrics returns the measured columns without the power columns. The first is
// the one that readers use, and every row has it: latency in all but a few
// tables.
func (t *Table) Metrics() []string {
	return t.names(func(c Column) bool { return c.Role == Metric })
}

// Params returns the columns that define what is measured, in table order: all but identity
// columns and metrics.
func (t *Table) Params() []string {
	return t.names(func(c Column) bool { return c.Role != Identity && c.Role != Metric })
}

// names returns the names of the columns that fit, in table order.
func (t *Table) names(fits func(Column) bool) []string {
	var names []string
	for _, c := range t.columns {
		if fits(c) {
			names = append(names, c.Name)
		}
	}
	return names
}

// LatencyUnit is "ms", or "us" for the one table in microseconds.
func (t *Table) LatencyUnit() string { return t.Schema().Primary().Unit }

// DtypeColumn returns the column with the precision in which the op computes, or "".
func (t *Table) DtypeColumn() string {
	for name := range strings.FieldsSeq("gemm_dtype moe_dtype bmm_dtype attn_dtype mla_dtype quant_dtype nccl_dtype " +
		"allreduce_dtype comm_dtype quant_type") {
		if _, ok := t.Column(name); ok {
			return name
		}
	}
	return ""
}

// Framework returns the word of a backend in the framework column. An unknown backend is
// returned unchanged.
func (t *Table) Framework(backend string) string {
	if l, ok := t.Labels[backend]; ok {
		return l
	}
	if b, ok := LookupBackend(backend); ok {
		return b.Framework
	}
	return backend
}

// Spelling returns the word that a backend's table has for a value of a plan. Most are
// equal, but the DeepSeek-V4 tables of SGLang have fp8_e4m3 for an fp8 cache.
func (t *Table) Spelling(backend, column, word string) string {
	if w, ok := t.Words[backend+" "+column+" "+word]; ok {
		return w
	}
	return word
}

// Source is the code of this package: checkpoints of what follows from it are
// stale when it changes.
//
//go:embed *.go catalog.json
var Source embed.FS

// Least is the smallest value that a size in a key can have; ok is false for
// columns that hold no size.
func (c Column) Least() (least int64, ok bool) {
	switch {
	case c.Type.ID() != arrow.INT64 || c.Role != Key && c.Role != Optional:
		return 0, false
	case slices.ContainsFunc(builtIn().Columns, func(b Column) bool {
		return b.Name == c.Name && b.Type == c.Type && b.Zero
	}):
		return 0, true
	}
	return 1, true
}
