package grid

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"aicplan/sink/base/textutil"
)

// IsText reports whether the values of a name are strings.
func (s *Spec) IsText(name string) bool {
	info := s.names[name]
	if info == nil && s.Sweep != nil {
		info = s.Sweep.names[name]
	}
	return info != nil && info.typ == cty.String
}

// convertGiven converts the given values to the types of their names. The strings describe values
// that cannot be converted and unknown names.
func (s *Spec) convertGiven(given map[string]cty.Value) (map[string]cty.Value, []string) {
	out := map[string]cty.Value{}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		info := s.names[name]
		if info == nil || info.outer {
			names := s.allNames()
			if s.Sweep != nil {
				names = append(names, s.Sweep.allNames()...)
			}
			problems = append(problems, fmt.Sprintf("Nothing in this grid is called %q; it binds %s.%s", name,
				shortList(names), textutil.DidYouMean(name, names)))
			continue
		}

		v := given[name]
		if info.typ != cty.DynamicPseudoType && !v.IsNull() {
			c, err := convert.Convert(v, info.typ)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s is a %s, not %s.", name, info.typ.FriendlyName(),
					display(v)))
				continue
			}
			v = c
		}

		out[name] = v
	}

	return out, problems
}

// offAxis returns messages that explain why no combination has the given values.
func (s *Spec) offAxis(given map[string]cty.Value) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		info, text := s.names[name], canonical(given[name])
		if info.derived || info.values[text] || (given[name].IsNull() && info.null) {
			continue
		}

		msg := fmt.Sprintf("%s = %s is not on the axis", name, text)
		if near := nearestValue(given[name], info.samples); near != "" {
			msg += ": did you mean " + near + "?"
		} else {
			msg += ": it has " + shortList(info.samples)
		}

		out = append(out, msg)
	}

	if len(out) == 0 {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(given)) {
			parts = append(parts, name+" = "+display(given[name]))
		}
		out = append(out, fmt.Sprintf("No combination of the loops has %s together.", strings.Join(parts, ", ")))
	}

	return out
}
