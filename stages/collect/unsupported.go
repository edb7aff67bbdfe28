package collect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/worker"
	"aicplan/engine/grid"
)

// unsupported matches cases of a grid that have no kernel on the plan's device. They are not tried, are
// recorded in the ledger as unsupported_config with the reason, and do not count for coverage.
type unsupported struct {
	reason string
	where  []columnIn // all must match
}

// columnIn matches cases whose column has one of the values, or whose column or product of columns is
// between two bounds.
type columnIn struct {
	name     string          // "isl", or "batch_size*isl"
	values   map[string]bool // as text; nil if bounds are given
	min, max float64
}

// readUnsupported decodes the attribute: a list of objects with a reason and with where, which maps a
// column to a value, a list of values or { min, max }.
func readUnsupported(v cty.Value) ([]unsupported, error) {
	if !isSet(v) {
		return nil, nil
	}
	if !v.IsWhollyKnown() {
		return nil, errors.New("it is not known before the run")
	}
	if !v.CanIterateElements() || v.Type().IsObjectType() || v.Type().IsMapType() {
		return nil, errors.New("it must be a list such as [{ where = { dtype = [\"fp8\"] }, reason = \"...\" }]")
	}

	var out []unsupported
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		u, err := readOneUnsupported(e)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", len(out)+1, err)
		}
		out = append(out, u)
	}

	return out, nil
}

func readOneUnsupported(v cty.Value) (unsupported, error) {
	var u unsupported
	if v.IsNull() || !v.Type().IsObjectType() {
		return u, errors.New("it must be an object with where and reason")
	}

	for name := range v.Type().AttributeTypes() {
		if name != "where" && name != "reason" {
			return u, fmt.Errorf("it has %q; only where and reason are known", name)
		}
	}

	if !v.Type().HasAttribute("where") || !v.Type().HasAttribute("reason") {
		return u, errors.New("it needs where and reason")
	}

	reason, where := v.GetAttr("reason"), v.GetAttr("where")
	if reason.IsNull() || reason.Type() != cty.String || strings.TrimSpace(reason.AsString()) == "" {
		return u, errors.New("reason must say why there is no kernel")
	}

	u.reason = reason.AsString()
	if where.IsNull() || !where.Type().IsObjectType() && !where.Type().IsMapType() || where.LengthInt() == 0 {
		return u, errors.New(
			"where must name a column and its values, such as { head_dim = [512] }; without one every case would be meant")
	}

	for it := where.ElementIterator(); it.Next(); {
		k, values := it.Element()
		in, err := readColumn(k.AsString(), values)
		if err != nil {
			return u, fmt.Errorf("where.%s: %w", k.AsString(), err)
		}
		u.where = append(u.where, in)
	}

	slices.SortFunc(u.where, func(a, b columnIn) int { return strings.Compare(a.name, b.name) })
	return u, nil
}

func readColumn(name string, values cty.Value) (columnIn, error) {
	in := columnIn{name: name, min: math.Inf(-1), max: math.Inf(1)}
	switch {
	case !values.IsNull() && (values.Type().IsObjectType() || values.Type().IsMapType()):
		return in, in.readBounds(values)
	case strings.Contains(name, "*"):
		return in, errors.New("a product of columns has bounds: { min = ... }, { max = ... } or both")
	case values.IsNull() || !values.CanIterateElements():
		in.values = map[string]bool{text(values): true}
		return in, nil
	}

	in.values = map[string]bool{}

	for vs := values.ElementIterator(); vs.Next(); {
		_, one := vs.Element()
		if !one.IsNull() && !one.Type().IsPrimitiveType() {
			return in, fmt.Errorf("it has a value that is %s", one.Type().FriendlyName())
		}
		in.values[text(one)] = true
	}

	return in, nil
}

func (in *columnIn) readBounds(v cty.Value) error {
	if v.LengthInt() == 0 {
		return errors.New("it has neither min nor max")
	}

	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if e.IsNull() || e.Type() != cty.Number {
			return fmt.Errorf("%s must be a number", k.AsString())
		}

		f, _ := e.AsBigFloat().Float64()
		switch k.AsString() {
		case "min":
			in.min = f
		case "max":
			in.max = f
		default:
			return fmt.Errorf("it has %q; bounds are min and max", k.AsString())
		}
	}

	return nil
}

// excludeUnsupported marks the units that have no kernel.
func (j *job) excludeUnsupported(all []unsupported) error {
	for _, u := range all {
		test, err := u.bind(j.cases)
		if err != nil {
			return err
		}

		closed := map[*why]*why{} // reasons of open units before and after, mostly a single one
		for i := range j.units {
			un := &j.units[i]
			if un.noKernel() != "" || !test(un) {
				continue
			}

			before, wasOpen := un.why, un.state == open
			if after := closed[before]; wasOpen && after != nil {
				un.state, un.why = skipped, after
				continue
			}

			un.why = j.shared(why{un.class(), un.reason(), u.reason})
			if wasOpen {
				j.close(un)
				closed[before] = un.why
			}
		}
	}

	return nil
}

func (in *columnIn) holds(un *unit, factors []*factor) bool {
	if in.values != nil {
		return factors[0].of(un).listed
	}

	product := 1.0
	for _, f := range factors {
		v := f.of(un)
		if !v.isNumber {
			return false
		}
		product *= v.number
	}

	return product >= in.min && product <= in.max
}

// factor is a column that a test reads. Columns have few values and many cases, so each value is tested
// once.
type factor struct {
	code   func(*unit) int // units with the same code have the same value
	value  func(*unit) cty.Value
	listed map[string]bool
	known  []*factorValue // by code
}

// factorValue is the result of testing a value.
type factorValue struct {
	listed, isNumber bool
	number           float64
}

func (f *factor) of(un *unit) *factorValue {
	code := f.code(un)
	if code < len(f.known) && f.known[code] != nil {
		return f.known[code]
	}

	v := f.value(un)
	out := &factorValue{}
	if f.listed != nil {
		out.listed = f.listed[text(v)]
	}

	if !v.IsNull() && v.Type() == cty.Number {
		out.isNumber = true
		out.number, _ = v.AsBigFloat().Float64()
	}

	f.known = append(f.known, make([]*factorValue, max(0, code+1-len(f.known)))...)
	f.known[code] = out
	return out
}

// factorOf returns a factor for a column. A sweep column takes precedence over a grid column of that
// name.
func factorOf(cases *grid.Cases, name string, listed map[string]bool) (*factor, error) {
	f := &factor{listed: listed}
	if at := slices.Index(cases.SweepColumns(), name); at >= 0 {
		code := cases.SweepCodes(at)
		f.code = func(un *unit) int { return code(int(un.task), int(un.point)) }
		f.value = func(un *unit) cty.Value { return cases.Sweep(int(un.task)).Value(int(un.point), at) }
		return f, nil
	}

	at := slices.Index(cases.Columns(), name)
	if at < 0 {
		return nil, fmt.Errorf("unsupported names %q; the grid's columns are %s", name,
			strings.Join(slices.Concat(cases.Columns(), cases.SweepColumns()), ", "))
	}

	f.code = func(un *unit) int { return cases.Code(int(un.task), at) }
	f.value = func(un *unit) cty.Value { return cases.Value(int(un.task), at) }
	return f, nil
}

// close skips a unit that has no kernel.
func (j *job) close(u *unit) { j.skip(u, worker.ClassUnsupportedConfig, u.noKernel()) }

// bind resolves the columns in a grid and returns a function that matches units.
func (u *unsupported) bind(cases *grid.Cases) (func(*unit) bool, error) {
	var tests []func(*unit) bool
	for _, in := range u.where {
		var factors []*factor
		for _, name := range strings.Split(in.name, "*") {
			f, err := factorOf(cases, strings.TrimSpace(name), in.values)
			if err != nil {
				return nil, err
			}
			factors = append(factors, f)
		}
		tests = append(tests, func(un *unit) bool { return in.holds(un, factors) })
	}

	return func(un *unit) bool {
		for _, t := range tests {
			if !t(un) {
				return false
			}
		}
		return true
	}, nil
}
