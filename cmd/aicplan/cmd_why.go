package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/grid"
	"aicplan/engine/run"
	"aicplan/sink/base/textutil"
	"aicplan/stages/grids"
)

type whyCmd struct {
	planFlags `embed:""`
	Address   string   `arg:"" help:"Address of a grid, or of a stage with the cases of one."`
	Values    []string `arg:"" optional:"" help:"name=value of the case. A name that is not given may have any value."`
	JSON      bool     `name:"json" help:"Print as JSON."`
}

// Run explains whether the combinations with the given values are cases.
func (c *whyCmd) Run(a *app) error {
	cfg, err := a.load(c.planFlags)
	if err != nil {
		return err
	}

	in, err := cfg.Find(c.Address)
	if err != nil {
		// The instances of collect and the stages after it have the names of their grids in the shipped plans.
		if _, key, ok := strings.Cut(strings.TrimSuffix(c.Address, `"]`), `["`); ok {
			if why := cfg.LeftOut("grid." + key); why != "" {
				err = fmt.Errorf("%s is not part of this plan, because grid.%s is not: %s", c.Address, key, why)
			}
		}
		if len(c.Var) > 0 {
			return fmt.Errorf("%w; the variables given are %s", err, strings.Join(c.Var, ", "))
		}
		return err
	}

	if in, err = gridOf(cfg, in); err != nil {
		return err
	}

	st, _, diags := cfg.Decode(in)
	if err := a.report(cfg, diags); err != nil {
		return err
	}

	spec := st.(*grids.Stage).Spec
	given, err := parseValues(c.Values, spec)
	if err != nil {
		return err
	}

	v, diags := grid.Why(spec, given)
	if err := a.report(cfg, diags); err != nil {
		return err
	}

	if c.JSON {
		err = a.json(v)
	} else {
		a.verdict(v, "")
	}

	if err != nil {
		return err
	}

	// A name or value that the grid does not have, or its points.
	return exitIf(len(v.Problems) > 0 || v.Point != nil && len(v.Point.Problems) > 0, run.ExitError)
}

// gridOf returns in if it is a grid, else the grid whose cases it handles. It returns an error if there
// is none or more than one.
func gridOf(cfg *config.Config, in *config.Instance) (*config.Instance, error) {
	found, seen := map[string]*config.Instance{}, map[string]bool{}
	var visit func(in *config.Instance)
	visit = func(in *config.Instance) {
		if seen[in.Address] {
			return
		}
		seen[in.Address] = true
		if _, isGrid := in.Kind.New().(*grids.Stage); isGrid {
			found[in.Address] = in
			return
		}
		for _, d := range in.Deps {
			visit(cfg.Instance(d))
		}
	}
	visit(in)

	addresses := slices.Sorted(maps.Keys(found))
	switch len(addresses) {
	case 1:
		return found[addresses[0]], nil
	case 0:
		return nil, fmt.Errorf("%s is %s that has no grid, so that there are no filters to explain", in.Address,
			textutil.WithArticle(in.Kind.Name))
	}
	return nil, fmt.Errorf("%s has the cases of several grids: name one of %s", in.Address, strings.Join(addresses, ", "))
}

// parseValues parses name=value arguments. A value is text unless it is null or a quoted string or, if the grid does
// not have text for the name, a number or bool.
func parseValues(args []string, spec *grid.Spec) (map[string]cty.Value, error) {
	out := map[string]cty.Value{}
	for _, kv := range args {
		name, text, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not name=value", kv)
		}

		if _, again := out[name]; again {
			return nil, fmt.Errorf("%s is given twice", name)
		}

		out[name] = cty.StringVal(text)
		if diags := config.TooDeep([]byte(text), kv); diags.HasErrors() {
			continue
		}

		expr, diags := hclsyntax.ParseExpression([]byte(text), kv, hcl.InitialPos)
		if diags.HasErrors() {
			continue
		}

		v, diags := expr.Value(nil)
		if !diags.HasErrors() && (v.IsNull() || v.Type() == cty.String || !spec.IsText(name)) {
			out[name] = v
		}
	}

	return out, nil
}

// verdict prints the result of Why.
func (a *app) verdict(v *grid.Reasons, indent string) {
	for line := range strings.Lines(view("reasons", v)) {
		a.printf("%s", indent+line)
	}
	if v.Point != nil {
		a.verdict(v.Point, indent+"  ")
	}
}
