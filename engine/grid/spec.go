package grid

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Evaluator resolves the references of expressions to values of the plan. See the same interface in
// engine/stage. It returns an error for references to sensitive values, so no value of a grid has marks.
type Evaluator interface {
	Context(exprs []hcl.Expression, bound map[string]bool) (*hcl.EvalContext, hcl.Diagnostics)
}

// Spec is a decoded grid. It is immutable and safe for concurrent expansion.
type Spec struct {
	// Op is the operation that the cases are for.
	Op string
	// Perf is the name of the catalog table for rows of this grid, or "".
	Perf string
	// Columns are the parameters of a case in order.
	Columns []string
	// Constants are columns of the perf table that have the same value in all cases.
	Constants []Constant
	Sets      []*Set
	// Distinct is nil if the grid has no such block. Exact duplicates are always dropped.
	Distinct *Distinct
	// Sweep describes the points inside a case, or is nil. Its expressions may use the names of the
	// case.
	Sweep *Spec
	Range hcl.Range

	filters    []*Filter // of all sets, in source order
	names      map[string]*nameInfo
	inclusions []*inclusion
}

// Constant is one table constant.
type Constant struct {
	Name  string
	Value cty.Value
}

// Set is one cross product: the dimensions of a case_set and those common to all sets, in loop
// order (first outermost).
type Set struct {
	Name    string // "" for the only set of a grid without case_set blocks
	Dims    []*Dim
	Derives []*Derive // sorted so that each uses only earlier ones
	Filters []*Filter // in source order, including common ones
	Range   hcl.Range
}

// Dim is one loop: an axis (one name) or rows (all fields of an object).
type Dim struct {
	Name   string
	Set    string // the case_set that contains it, "" if it is common
	Rows   bool
	Fields []string
	Values [][]cty.Value // by field, then by entry
	Range  hcl.Range

	order  int        // sequence number among the blocks of the grid
	static bool       // values do not depend on variables
	types  []cty.Type // by field, for rows without entries; otherwise nil
}

// Size returns the number of entries.
func (d *Dim) Size() int {
	if len(d.Values) == 0 {
		return 0
	}
	return len(d.Values[0])
}

// Derive is a value computed from other names.
type Derive struct {
	Name  string
	Range hcl.Range

	expr  *Expr
	order int // sequence number among the blocks of the grid
}

// Filter drops combinations for which its expression is false.
type Filter struct {
	Name string
	// Set is the case_set that the filter belongs to, "" if it is common.
	Set    string
	Reason string
	Range  hcl.Range

	keep  *Expr
	order int        // sequence number among the blocks, later among the filters
	in    *inclusion // nil if the filter is in the grid itself
}

// Place returns the position of the filter as file:line. If the filter is in a part, it also
// returns the address of the part and the positions at which the part is included, innermost first.
func (f *Filter) Place() (at, part string, includedAt []string) {
	if f.in != nil {
		part = f.in.part.Name
	}
	return place(f.Range), part, f.in.places()
}

// Label returns the name of the filter as shown in waterfalls: prefixed with its set, if any.
func (f *Filter) Label() string {
	if f.Set == "" {
		return f.Name
	}
	return f.Set + "." + f.Name
}

// Distinct selects one of several combinations with the same key.
type Distinct struct {
	By []string
	// Of is nil for prefer = "first". For "min", the combination with the smallest value is kept,
	// or the first of equal ones. No expression can use its name.
	Of    *Derive
	Range hcl.Range
}

// Expr is an expression with the values of everything it refers to except the grid's own names.
type Expr struct {
	src   hclsyntax.Expression
	eval  Evaluator // of the module that contains the expression
	ctx   *hcl.EvalContext
	names []string // names of the grid, in order of first use
}

// nameInfo describes a name over all sets.
type nameInfo struct {
	name    string
	typ     cty.Type // DynamicPseudoType if it cannot be determined
	null    bool     // may be null
	derived bool     // in at least one set
	outer   bool     // bound by the case that a sweep belongs to
	values  map[string]bool
	samples []string // canonical values, for suggestions
	static  bool     // values do not depend on variables
	rng     hcl.Range
}

func (s *Set) dim(name string) *Dim {
	for _, d := range s.Dims {
		if d.Name == name {
			return d
		}
	}
	return nil
}

func (s *Set) derive(name string) *Derive {
	for _, d := range s.Derives {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// names returns the names that have a value in every combination of the set.
func (s *Set) names() []string {
	var out []string
	for _, d := range s.Dims {
		out = append(out, d.Fields...)
	}
	for _, v := range s.Derives {
		out = append(out, v.Name)
	}

	return out
}

// label returns the set's name as used in messages.
func (s *Set) label() string {
	if s.Name == "" {
		return "the grid"
	}
	return "case_set \"" + s.Name + "\""
}

// Dims returns the axes and rows of the grid, each once, in the loop order of the sets.
func (s *Spec) Dims() []*Dim {
	var out []*Dim
	for _, set := range s.Sets {
		out = union(out, set.Dims...)
	}

	return out
}

// JSON returns the value as canonical JSON: equal values have the same text.
func (c Constant) JSON() string { return canonical(c.Value) }
