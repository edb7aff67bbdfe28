package rows

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
)

// Stages lists the columns that a collect fills in. Values from workers are ignored.
var Stages = []string{"case_id", "status", "framework", "version", "device", "attempts", "worker", "device_uuid",
	"started_at", stage.AttachmentsColumn}

// Limits of the values in a row.
const (
	maxText   = 64 << 10 // bytes; the kernels of a traced server take some ten thousand
	maxDigits = 64       // of the longest float or integer
)

// Check checks the rows of one case.
type Check struct {
	Schema Schema
	// Table is the perf table of the rows, or nil.
	Table *catalog.Table
	// Param returns a parameter of the case, with JSON types. Nil means that the case has none.
	Param func(name string) (any, bool)
	// Sweep lists the columns in which the points of the case differ.
	Sweep []string
	// Demands are columns that every row must have for a later stage.
	Demands []string
}

func (c *Check) param(name string) (any, bool) {
	if c.Param == nil || slices.Contains(c.Sweep, name) {
		return nil, false
	}
	return c.Param(name)
}

// number returns text of a column that has numbers in the perf table as a number. wanted is false for other columns.
func (c *Check) number(name, text string) (n json.Number, wanted bool) {
	if c.Table == nil || text == "" || nonFinite(text) {
		return "", false
	}
	if col, ok := c.Table.Column(name); !ok || col.Type.ID() != arrow.INT64 && col.Type.ID() != arrow.FLOAT64 {
		return "", false
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && json.Valid([]byte(text)) {
		n = json.Number(text)
	}
	return n, true
}

// Row returns the first error in row i of the worker's answer, or nil.
func (c *Check) Row(row worker.Row, i int) *worker.Failure {
	for name, v := range row {
		if c.misfit(name, v, i) == nil {
			continue
		}
		// Report the first error by column name, so that the message is deterministic.
		for _, name := range slices.Sorted(maps.Keys(row)) {
			if f := c.misfit(name, row[name], i); f != nil {
				return f
			}
		}
	}

	for _, f := range c.Schema {
		v := row[f.Name]
		text, isText := v.(string)
		switch {
		case v == nil && f.Needed:
			return Bug("row %d has no %s", i, f.Name)

		case v == nil:
		case f.Needed && isText && nonFinite(text):
			exception := "NonFiniteMetric"
			if f.Name == "latency" {
				exception = "NonFiniteLatency" // rules in plans match this name
			}
			return &worker.Failure{Class: worker.ClassFrameworkBug, Exception: exception,
				Message: fmt.Sprintf("row %d: non-finite %s (%s)", i, f.Name, text)}

		case isText && nonFinite(text) && f.Kind == Number: // unknown, stored as null
		case !f.Kind.holds(v):
			return Bug("row %d: %s is %#v", i, f.Name, v)

		case f.Needed:
			switch x, _ := v.(json.Number).Float64(); {
			case x < 0:
				return Bug("row %d: the %s is negative (%v); correct the op's timer, or raise an error if nothing was measured",
					i, f.Name, v)
			case x == 0 && f.Positive:
				return Bug("row %d: the %s is zero (%v); correct the op's timer, or raise an error if nothing was "+
					"measured; if 0 is a value of this metric, declare it with zero = true in a table block", i, f.Name, v)
			}
		}
	}

	return nil
}

// Unmet returns a failure if row i lacks a column that a later stage demands.
func (c *Check) Unmet(row worker.Row, i int) *worker.Failure {
	for _, name := range c.Demands {
		if v := row[name]; v != nil && v != "" {
			continue
		}
		if v, _ := c.param(name); v == nil || v == "" {
			return Bug(
				"row %d has no %s, and an export behind this collect needs it of every row; return it from the op function, for "+
					"example %s = \"torch\"",
				i,
				name,
				name,
			)
		}
	}
	return nil
}

// Contradicts reports whether a row has parameters of another case. The case's rows cannot be used then.
func (c *Check) Contradicts(row worker.Row) bool {
	for name, v := range row {
		if want, ok := c.param(name); ok && !Same(v, want) {
			return true
		}
	}
	return false
}

// Reduce removes from a row what is not stored: unknown values, parameters, and columns that the stage fills in. Text
// in columns of numbers becomes a number.
func (c *Check) Reduce(row worker.Row) {
	for name, v := range row {
		if text, ok := v.(string); ok {
			if n, wanted := c.number(name, text); wanted {
				row[name] = n
			}
		}
	}

	maps.DeleteFunc(row, func(name string, v any) bool {
		s, _ := v.(string)
		_, param := c.param(name)
		return v == nil || nonFinite(s) || param || slices.Contains(c.Sweep, name) || slices.Contains(Stages, name)
	})
}

// misfit returns the error in one value of row i, or nil.
func (c *Check) misfit(name string, v any, i int) *worker.Failure {
	if strings.TrimSpace(name) == "" {
		return Bug("row %d has a column without a name (%q = %v); name each value that the op returns", i, name, v)
	}

	why := ""
	switch v := v.(type) {
	case nil, bool:
	case json.Number:
		why = unfitNumber(v)
	case string:
		why = UnfitText(v)
	default:
		why = "is no single value"
	}

	if why != "" {
		return Bug("row %d: column %s %s", i, name, why)
	}
	if want, ok := c.param(name); ok && !Same(v, want) {
		return Bug("row %d has %s = %v and the case has %v", i, name, v, want)
	}
	if text, ok := v.(string); ok {
		if n, wanted := c.number(name, text); wanted && n == "" {
			return Bug("row %d: %s is %q, and the column of %s has numbers", i, name, text, c.Table.Name)
		}
	}

	return nil
}

// UnfitText returns why text from a worker cannot be stored, or "".
func UnfitText(s string) string {
	if len(s) > maxText {
		return fmt.Sprintf("contains a text of %d bytes; %d are the most", len(s), maxText)
	}
	return textutil.Unfit(s)
}

// unfitNumber returns why a number from a worker cannot be stored, or "".
func unfitNumber(n json.Number) string {
	if len(n) > maxDigits {
		return fmt.Sprintf("contains a number of %d digits", len(n))
	}

	whole := !strings.ContainsAny(string(n), ".eE")
	if whole { // ParseInt would allocate an error for every float
		if _, err := n.Int64(); err == nil {
			return ""
		}
	}

	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return fmt.Sprintf("contains %s, which no float has", n)
	}

	if whole {
		return fmt.Sprintf("contains the integer %s, which is too large for 64 bits; return it as a float or as text", n)
	}

	return ""
}

func nonFinite(s string) bool { return s == "NaN" || s == "Infinity" || s == "-Infinity" }

// Bug returns the failure of an op that returned a wrong row.
func Bug(format string, args ...any) *worker.Failure {
	return &worker.Failure{Class: worker.ClassCollectorBug, Exception: "BadRow", Message: fmt.Sprintf(format, args...)}
}

// Same compares a row's value with a parameter: numbers by value, everything else as text.
func Same(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}

	na, okA := a.(json.Number)
	nb, okB := b.(json.Number)
	if okA && okB && na != nb {
		ia, errA := na.Int64()
		ib, errB := nb.Int64()
		if errA == nil && errB == nil {
			return ia == ib // floats cannot distinguish large integers
		}
		fa, errA := strconv.ParseFloat(string(na), 64)
		fb, errB := strconv.ParseFloat(string(nb), 64)
		return errA == nil && errB == nil && fa == fb
	}

	return fmt.Sprint(a) == fmt.Sprint(b)
}

// Kind is the type of a column.
type Kind int

// The types of columns.
const (
	Number Kind = iota
	Integer
	Flag
	Word
	untyped // a column that a worker has added; its type depends on all values
)

func (k Kind) holds(v any) bool {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil || math.IsInf(f, 0) {
			return false
		}
		return k == Number || (k == Integer && f == math.Trunc(f) && math.Abs(f) < 1<<53)
	case bool:
		return k == Flag
	case string:
		return k == Word
	}

	return false
}

// Field is a column that measured rows may have.
type Field struct {
	Name string
	Kind Kind
	// Needed is set for metrics that every row must have, and Positive for the first of them unless zero is one of its
	// values.
	Needed, Positive bool
	// Rare columns are left out of a table if no row has a value.
	Rare bool
}

// Schema lists the columns that measured rows may have besides the worker's extra columns, in table order.
type Schema []Field

// Columns that the measuring code of ops adds before and after the metrics.
var (
	beforeMetrics = Schema{{Name: "kernel_source", Kind: Word}}
	afterMetrics  = Schema{
		{Name: "samples", Kind: Integer}, {Name: "rel_stdev"}, {Name: "p10"}, {Name: "p90"},
		{Name: "used_cuda_graph", Kind: Flag}, {Name: "sm_clock_mhz"}, {Name: "throttled", Kind: Flag},
		{Name: "launch_bound", Kind: Flag, Rare: true},
		{Name: "power", Rare: true}, {Name: "power_limit", Rare: true}, {Name: "energy", Rare: true},
	}
)

// SchemaOf returns the schema of a perf table, which the catalog or the plan declares. timed adds the columns of
// the measuring code.
func SchemaOf(tables *catalog.Catalog, perf string, timed bool) Schema {
	var s Schema
	if timed {
		s = append(s, beforeMetrics...)
	}

	for i, m := range tables.SchemaOf(perf).Metrics {
		s = append(s, Field{Name: m.Name, Needed: !m.Lacking, Positive: i == 0 && !m.Zero})
	}

	if timed {
		s = append(s, afterMetrics...)
	}

	return s
}
