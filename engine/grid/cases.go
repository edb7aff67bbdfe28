package grid

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Cases are the expanded cases of a grid, stored by column: each column has a dictionary of its
// distinct values and one small index per case. Cases are immutable and safe for concurrent use.
type Cases struct {
	rows
	Spec       *Spec
	duplicates int
	Waterfall  Waterfall // what each filter dropped
	sweep      *sweepPoints

	ids    func() []byte // IDs of all cases, IDLength bytes each, which are never modified
	record func() arrow.Record
	digest func() string
}

// rows are values by column.
type rows struct {
	names   []string
	columns []column
	n       int
}

// Len returns the number of cases or points.
func (r rows) Len() int { return r.n }

// Columns returns the names of the parameters in column order.
func (r rows) Columns() []string { return r.names }

// Value returns the value of column col in a row.
func (r rows) Value(row, col int) cty.Value {
	k := &r.columns[col]
	return k.dict[k.ids[row]]
}

func newCases(spec *Spec) *Cases {
	c := &Cases{rows: rows{names: spec.Columns}, Spec: spec}
	c.ids, c.record, c.digest = sync.OnceValue(c.makeIDs), sync.OnceValue(c.makeRecord), sync.OnceValue(c.makeDigest)
	return c
}

// column is one parameter of the cases.
type column struct {
	name  string
	key   string // name as JSON
	kind  valueKind
	dict  []cty.Value
	texts []string // of dict, as in case IDs and in JSON
	ids   []int32
}

// newColumn returns a column whose values have a common type.
func newColumn(name string, dict []cty.Value, ids []int32) column {
	k := column{name: name, key: quoteJSON(name), dict: dict, ids: ids}
	k.kind, _ = columnKind(dict)
	for _, v := range dict {
		k.texts = append(k.texts, canonical(v))
	}
	return k
}

// valueKind is the type of a column.
type valueKind int

const (
	kindString valueKind = iota
	kindInt
	kindFloat
	kindBool
)

// Code returns the dictionary index of the value of column col in case i. Cases with the same code
// have the same value. Codes are small and start at 0.
func (c *Cases) Code(i, col int) int { return int(c.columns[col].ids[i]) }

// fill copies the kept combinations of w into c, without duplicates.
func (c *Cases) fill(w *walker) hcl.Diagnostics {
	stay, diags := w.distinct(c.Spec)
	if diags.HasErrors() {
		return diags
	}

	w.stay = stay
	c.duplicates = w.kept - len(stay)
	c.n = len(stay)

	for _, name := range c.Spec.Columns {
		v, all := w.columnOf(name)
		if w.kept > len(stay) {
			all = pick(all, stay)
		}
		dict, ids := compact(v, all)
		info := c.Spec.names[name]
		if _, why := columnKind(dict); why != "" {
			diags = append(diags, errorAt(info.rng, "Invalid column",
				"The column %q %s. Columns are numbers, strings or bools; to keep a helper out of the cases, list the wanted "+
					"columns in the grid's columns.", name, why))
			continue
		}

		k := newColumn(name, dict, ids)
		if onlyNulls(dict) {
			k.kind = c.Spec.declaredKind(info)
		}
		c.columns = append(c.columns, k)
	}

	return diags
}

// pick returns the elements of all at some indices.
func pick(all, at []int32) []int32 {
	out := make([]int32, len(at))
	for i, j := range at {
		out[i] = all[j]
	}

	return out
}

// columnKind returns the type of a column. If the values have no common type, the string describes
// the problem.
func columnKind(dict []cty.Value) (valueKind, string) {
	typ := cty.NilType
	ints := true
	for _, v := range dict {
		if v.IsNull() {
			continue
		}
		t := v.Type()
		switch {
		case !t.IsPrimitiveType():
			return 0, "has a value that is " + t.FriendlyName()
		case typ == cty.NilType:
			typ = t
		case typ != t:
			return 0, fmt.Sprintf("mixes %s and %s", typ.FriendlyName(), t.FriendlyName())
		}

		if t == cty.Number && !isInt64(v) {
			if digits := tooLong(v.AsBigFloat()); digits != "" {
				return 0, "has " + digits + ", which neither a 64-bit integer nor a float keeps; write it as text"
			}
			ints = false
		}
	}

	if typ == cty.Number && !ints {
		for _, v := range dict {
			if v.IsNull() || !isInt64(v) {
				continue
			}
			if i, _ := v.AsBigFloat().Int64(); int64(float64(i)) != i || i == math.MaxInt64 {
				return 0, fmt.Sprintf(
					"has %d together with numbers that are not integers, and a column of these cannot distinguish it from its "+
						"neighbours",
					i,
				)
			}
		}
	}

	switch {
	case typ == cty.Bool:
		return kindBool, ""
	case typ == cty.Number && ints:
		return kindInt, ""
	case typ == cty.Number:
		return kindFloat, ""
	}

	return kindString, ""
}

func onlyNulls(dict []cty.Value) bool {
	return !slices.ContainsFunc(dict, func(v cty.Value) bool { return !v.IsNull() })
}

// declaredKind returns the type of a column that is null in all cases, derived from the values and
// the type that the grid declares for it.
func (s *Spec) declaredKind(info *nameInfo) valueKind {
	var vals []cty.Value
	for _, dim := range s.Dims() {
		if f := slices.Index(dim.Fields, info.name); f >= 0 {
			vals = append(vals, dim.Values[f]...)
		}
	}

	if k, why := columnKind(vals); why == "" && !onlyNulls(vals) {
		return k
	}

	switch info.typ {
	case cty.Number:
		return kindInt
	case cty.Bool:
		return kindBool
	}

	return kindString
}
