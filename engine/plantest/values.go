package plantest

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// maxCases limits the result of cases(), because an expression evaluates every element.
const maxCases = 20000

// planValue returns the value of plan in conditions.
func planValue(sum plan.Summary) cty.Value {
	stages := map[string]cty.Value{}
	warnings := []cty.Value{}
	for i := range sum.Stages {
		s := &sum.Stages[i]
		attrs := counts(countsOf(s))
		attrs["kind"], attrs["action"] = cty.StringVal(s.Kind), cty.StringVal(string(s.Action))
		attrs["reason"], attrs["drops"] = cty.StringVal(s.Reason), cty.ObjectVal(counts(dropsBy(s)))
		stages[s.Address] = cty.ObjectVal(attrs)
		for _, w := range s.Warnings {
			warnings = append(warnings, cty.StringVal(w))
		}
	}

	t := sum.Totals
	out := counts(map[string]int64{
		"declared": t.Declared, "dropped": t.Dropped, "duplicates": t.Duplicates, "cases": int64(t.Cases),
		"collect": int64(t.Collect), "elsewhere": int64(t.Elsewhere), "rows": int64(t.Rows),
		"unsupported": int64(t.Unsupported), "left_out": int64(t.LeftOut),
	})
	out["stages"], out["warnings"], out["work"] = cty.ObjectVal(stages), cty.TupleVal(warnings), cty.BoolVal(sum.Work)
	return cty.ObjectVal(out)
}

func counts(m map[string]int64) map[string]cty.Value {
	out := map[string]cty.Value{}
	for name, n := range m {
		out[name] = cty.NumberIntVal(n)
	}
	return out
}

// caseFunctions returns the functions that only test conditions have: cases(ADDRESS) returns the
// cases of a grid as objects.
func caseFunctions(p *plan.Plan) map[string]function.Function {
	return map[string]function.Function{"cases": function.New(&function.Spec{
		Params: []function.Parameter{{Name: "address", Type: cty.String}},
		Type:   function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return casesOf(p, args[0].AsString())
		},
	})}
}

func casesOf(p *plan.Plan, address string) (cty.Value, error) {
	// Config.Find would wait for the evaluation that calls this function.
	var found []*plan.Stage
	for _, in := range p.Config.Instances {
		if in.Address == address || config.LocalAddress(in.Address) == address {
			found = append(found, p.Stage(in.Address))
		}
	}
	if exact := p.Stage(address); exact != nil {
		found = []*plan.Stage{exact}
	}
	if len(found) != 1 {
		return cty.DynamicVal, function.NewArgErrorf(0, "%d stages of the plan are called %s; aicplan describe lists them",
			len(found), address)
	}

	s := found[0]
	if s.Plan == nil || s.Plan.Waterfall == nil || s.Plan.Data == nil || s.Plan.Data.Planned == nil {
		return cty.DynamicVal, function.NewArgErrorf(0, "%s is not a grid whose cases are known before a run", address)
	}

	rec := s.Plan.Data.Planned
	if rec.NumRows() > maxCases {
		return cty.DynamicVal, fmt.Errorf("%s has %s cases, and a condition may look at %s: choose fewer with variables",
			address, textutil.Count(rec.NumRows()), textutil.Count(maxCases))
	}

	out := make([]cty.Value, rec.NumRows())
	for i := range out {
		attrs := map[string]cty.Value{}
		for c, f := range rec.Schema().Fields() {
			attrs[f.Name] = stage.Cell(table.Value(rec, c, i))
		}
		out[i] = cty.ObjectVal(attrs)
	}

	return cty.TupleVal(out), nil
}
