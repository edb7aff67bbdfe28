package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/worker"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
	"aicplan/stages/runtimes"
)

// unsupported matches cases of a grid that have no kernel on the plan's device. They are not tried, are recorded in
// the ledger as unsupported_config with the reason, and do not count for coverage.
type unsupported struct {
	reason string
	where  []columnIn // all must match
}

// columnIn matches cases whose column has one of the values, or whose column or product of columns is between two
// bounds.
type columnIn struct {
	name     string // "isl", or "batch_size*isl"
	values   []any  // as from JSON; nil if bounds are given
	min, max float64
}

// readUnsupported decodes the attribute: a list of objects with a reason and with where, which maps a column to a
// value, a list of values or { min, max }.
func readUnsupported(v cty.Value) ([]unsupported, error) {
	if !stage.IsSet(v) {
		return nil, nil
	}
	plain, err := runtimes.Plain(v)
	if err != nil {
		return nil, err
	}
	list, ok := plain.([]any)
	if !ok {
		return nil, errors.New("it must be a list such as [{ where = { dtype = [\"fp8\"] }, reason = \"...\" }]")
	}

	var out []unsupported
	for i, e := range list {
		u, err := readOneUnsupported(e)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i+1, err)
		}
		out = append(out, u)
	}
	return out, nil
}

func readOneUnsupported(v any) (u unsupported, err error) {
	object, _ := v.(map[string]any)
	where, isObject := object["where"].(map[string]any)
	reason, isText := object["reason"].(string)
	switch {
	case len(object) != 2 || !isObject || !isText:
		return u, errors.New("it must be an object with the attributes where, an object, and reason, a text")
	case strings.TrimSpace(reason) == "":
		return u, errors.New("reason must state why there is no kernel")
	case len(where) == 0:
		return u, errors.New("where must name a column and its values, such as { head_dim = [512] }; " +
			"without one every case would be meant")
	}

	u.reason = reason
	for _, name := range slices.Sorted(maps.Keys(where)) {
		in, err := readColumn(name, where[name])
		if err != nil {
			return u, fmt.Errorf("where.%s: %w", name, err)
		}
		u.where = append(u.where, in)
	}
	return u, nil
}

func readColumn(name string, v any) (columnIn, error) {
	in := columnIn{name: name, min: math.Inf(-1), max: math.Inf(1)}
	switch v := v.(type) {
	case map[string]any:
		return in, in.readBounds(v)
	case []any:
		in.values = append([]any{}, v...)
	default:
		in.values = []any{v}
	}
	return in, nil
}

func (in *columnIn) readBounds(v map[string]any) error {
	for name, bound := range v {
		to := map[string]*float64{"min": &in.min, "max": &in.max}[name]
		if to == nil {
			return fmt.Errorf("it has %q; bounds are min and max", name)
		}
		if *to = number(bound); math.IsNaN(*to) {
			return fmt.Errorf("%s must be a number", name)
		}
	}
	if len(v) == 0 || in.min > in.max {
		return errors.New("bounds are { min = ... }, { max = ... } or both, and min must not be above max")
	}
	return nil
}

// excludeUnsupported marks the units that have no kernel, and skips those that are open.
func (j *job) excludeUnsupported(all []unsupported) error {
	for _, u := range all {
		matches, err := u.bind(j.cases)
		if err != nil {
			return err
		}

		bar := &skip{worker.ClassUnsupportedConfig, u.reason}
		for _, un := range j.all() {
			if un.bar != nil || !matches(un) {
				continue
			}
			if un.bar = bar; un.state == open {
				un.skip(bar)
			}
		}
	}
	return nil
}

// bind resolves the columns in a grid and returns a function that matches units.
func (u *unsupported) bind(cases *grid.Cases) (func(*unit) bool, error) {
	var tests []func(*unit) bool
	for _, in := range u.where {
		if in.values != nil {
			listed, err := reader(cases, in.name, func(v any) bool {
				return slices.ContainsFunc(in.values, func(one any) bool { return rows.Same(one, v) })
			})
			if err != nil {
				return nil, err
			}
			tests = append(tests, listed)
			continue
		}

		var factors []func(*unit) float64
		for name := range strings.SplitSeq(in.name, "*") {
			f, err := reader(cases, strings.TrimSpace(name), number)
			if err != nil {
				return nil, err
			}
			factors = append(factors, f)
		}
		tests = append(tests, func(un *unit) bool {
			product := 1.0
			for _, f := range factors {
				product *= f(un)
			}
			return product >= in.min && product <= in.max // false for NaN
		})
	}

	return func(un *unit) bool {
		return !slices.ContainsFunc(tests, func(t func(*unit) bool) bool { return !t(un) })
	}, nil
}

// number returns a number as a float, and NaN for other values.
func number(v any) float64 {
	if n, ok := v.(json.Number); ok {
		f, _ := n.Float64()
		return f
	}
	return math.NaN()
}

// reader returns a function that returns of(v) for the value v of a column in a unit. Columns have few values and many
// cases, so of is called once for each value. A sweep column takes precedence over a grid column of that name.
func reader[T any](cases *grid.Cases, name string, of func(v any) T) (func(*unit) T, error) {
	var code func(*unit) int // units with the same code have the same value
	var value func(*unit) any
	if at := slices.Index(cases.SweepColumns(), name); at >= 0 {
		codes := cases.SweepCodes(at)
		code = func(un *unit) int { return codes(int(un.task), int(un.point)) }
		value = func(un *unit) any { return cases.Sweep(int(un.task)).Plain(int(un.point), at) }
	} else {
		at, err := columnsOf(cases, []string{name}, "unsupported")
		if err != nil {
			return nil, err
		}
		code = func(un *unit) int { return cases.Code(int(un.task), at[0]) }
		value = func(un *unit) any { return cases.Plain(int(un.task), at[0]) }
	}

	known := map[int]T{}
	return func(un *unit) T {
		v, ok := known[code(un)]
		if !ok {
			v = of(value(un))
			known[code(un)] = v
		}
		return v
	}, nil
}
