package grid

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Evaluator gives access to the values of a plan by reference; see the same
// interface of engine/stage.
type Evaluator interface {
	Context(exprs []hcl.Expression, bound map[string]bool) (*hcl.EvalContext, hcl.Diagnostics)
}

// Spec is a decoded grid. It is immutable: any number of goroutines may expand
// it at the same time.
type Spec struct {
	// Op is the operation that the cases are for.
	Op string
	// Perf names the catalog table that rows of this grid belong to, or "".
	Perf        string
	Description string
	// Columns are the parameters of a case in order.
	Columns []string
	// Constants are columns of the perf table with one value for all cases.
	Constants []Constant
	Sets      []*Set
	// Distinct is nil unless the grid has such a block; exact duplicates are
	// dropped in any case.
	Distinct *Distinct
	// Sweep holds the points inside a case, nil without any; its expressions
	// may use the case's names.
	Sweep *Spec
	Range hcl.Range

	filters    []*Filter // of all sets, in the order of the text
	names      map[string]*nameInfo
	inclusions []*inclusion
}

// Constant is one table constant.
type Constant struct {
	Name  string
	Value cty.Value
}

// Set is one cross product: the dimensions of a case_set with those common to
// all sets, in loop order (first outermost).
type Set struct {
	Name        string // "" for the only set of a grid without case_set blocks
	Description string
	Dims        []*Dim
	Derives     []*Derive // in an order in which each uses only earlier ones
	Filters     []*Filter // in source order, common ones among them
	Range       hcl.Range
}

// Dim is one loop: an axis (one name) or rows (the fields of an object
// together).
type Dim struct {
	Name        string
	Rows        bool
	Fields      []string
	Values      [][]cty.Value // by field, then by entry
	Description string
	Range       hcl.Range

	set    string     // the case_set it stands in, "" when it is common
	order  int        // its place among the blocks of the grid
	static bool       // its values do not depend on variables
	types  []cty.Type // by field, of rows without any row; else nil
}

// Size is the number of entries.
func (d *Dim) Size() int {
	if len(d.Values) == 0 {
		return 0
	}
	return len(d.Values[0])
}

// Derive is a value computed from others.
type Derive struct {
	Name        string
	Description string
	Range       hcl.Range

	expr  *Expr
	order int // its place among the blocks of the grid
}

// Filter keeps combinations for which its expression is true.
type Filter struct {
	Name string
	// Set is the case_set that the filter belongs to, "" when it is common.
	Set    string
	Reason string
	Range  hcl.Range

	keep  *Expr
	order int        // its place among the blocks, later among the filters
	in    *inclusion // nil when it stands in the grid itself
}

// Place is where the filter stands, file:line. For one that stands in a part,
// the part's address and the places at which it is included, innermost first.
func (f *Filter) Place() (at, part string, includedAt []string) {
	if f.in != nil {
		part = f.in.part.Name
	}
	return place(f.Range), part, f.in.places()
}

// Label is the filter's name with its set, as waterfalls show it.
func (f *Filter) Label() string {
	if f.Set == "" {
		return f.Name
	}
	return f.Set + "." + f.Name
}

// Distinct says which of several combinations with the same key stays.
type Distinct struct {
	By []string
	// Of is nil for prefer = "first"; for "min" the combination with the
	// smallest value stays, the first of equals.
	Of    *Derive
	Range hcl.Range
}

// Expr is an expression with the values of everything it refers to but the
// grid's own names.
type Expr struct {
	src   hcl.Expression
	eval  Evaluator // of the module that it stands in
	ctx   *hcl.EvalContext
	names []string // of the grid, in order of first use
}

// Source returns the expression's place in the plan.
func (e *Expr) Source() hcl.Range { return e.src.Range() }

// nameInfo is what is known about a name over all sets.
type nameInfo struct {
	name    string
	typ     cty.Type // DynamicPseudoType when it cannot be told
	null    bool     // may be null
	derived bool     // in some set
	outer   bool     // bound by the case that a sweep belongs to
	values  map[string]bool
	samples []string // canonical values, for suggestions
	static  bool     // values are known not to depend on variables
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

// binds says whether name has a value in every combination of the set.
func (s *Set) binds(name string) bool {
	if s.derive(name) != nil {
		return true
	}
	for _, d := range s.Dims {
		for _, f := range d.Fields {
			if f == name {
				return true
			}
		}
	}
	return false
}

// label is how messages call the set.
func (s *Set) label() string {
	if s.Name == "" {
		return "the grid"
	}
	return "case_set \"" + s.Name + "\""
}

// Axis describes one axis or rows block for listings.
type Axis struct {
	Name        string
	Set         string // case_set, "" for those common to all sets
	Rows        bool
	Fields      []string
	Size        int
	Description string
	Values      [][]cty.Value // by field
}

// Axes lists the axes and rows of the grid, each once, in the order of the
// sets' loops.
func (s *Spec) Axes() []Axis {
	var out []Axis
	seen := map[*Dim]bool{}
	for _, set := range s.Sets {
		for _, d := range set.Dims {
			if !seen[d] {
				seen[d] = true
				out = append(out, Axis{Name: d.Name, Set: d.set, Rows: d.Rows, Fields: d.Fields,
					Size: d.Size(), Description: d.Description, Values: d.Values})
			}
		}
	}
	return out
}

// Filters lists the filters of all sets in source order.
func (s *Spec) Filters() []*Filter { return s.filters }

// JSON is the value as JSON, the same for all ways to write it.
func (c Constant) JSON() string { return canonical(c.Value) }

// String is "name=value", the value written as in case ids.
func (c Constant) String() string { return c.Name + "=" + canonical(c.Value) }
