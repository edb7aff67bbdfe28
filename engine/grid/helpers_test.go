package grid

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"pgregory.net/rapid"

	_ "aicplan/engine/stage" // makes division by zero an error
)

// testEval is an Evaluator over fixed values.
type testEval struct {
	vars map[string]cty.Value
}

func (e testEval) Context(exprs []hcl.Expression, bound map[string]bool) (*hcl.EvalContext, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: testFuncs}
	for _, x := range exprs {
		for _, t := range x.Variables() {
			root := t.RootName()
			if bound[root] {
				continue
			}

			v, ok := e.vars[root]
			if !ok {
				diags = append(diags, errorAt(t.SourceRange(), "Unknown reference",
					"Nothing here is called %q.", root))
				continue
			}

			ctx.Variables[root] = v
		}
	}

	return ctx, diags
}

var testFuncs = map[string]function.Function{
	"min": stdlib.MinFunc, "max": stdlib.MaxFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc,
	"contains": stdlib.ContainsFunc, "length": stdlib.LengthFunc, "range": stdlib.RangeFunc,
	"concat": stdlib.ConcatFunc,
	"format": stdlib.FormatFunc, "try": tryfunc.TryFunc, "can": tryfunc.CanFunc, "coalesce": stdlib.CoalesceFunc,
	"ceil_div": function.New(&function.Spec{
		Params: []function.Parameter{{Name: "a", Type: cty.Number}, {Name: "b", Type: cty.Number}},
		Type:   function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[1].AsBigFloat().Sign() == 0 {
				return cty.NilVal, fmt.Errorf("division by zero")
			}
			return stdlib.Ceil(args[0].Divide(args[1]))
		},
	}),
}

// testScope returns the values that test plans may refer to.
func testScope() testEval {
	return testEval{vars: map[string]cty.Value{
		"local": cty.ObjectVal(map[string]cty.Value{
			"powers": cty.ListVal([]cty.Value{cty.NumberIntVal(1), cty.NumberIntVal(2), cty.NumberIntVal(4)}),
		}),
		"var": cty.ObjectVal(map[string]cty.Value{
			"no_rows": cty.ListValEmpty(cty.Object(map[string]cty.Type{"hidden": cty.Number, "model": cty.String})),
			"dtypes":  cty.ListVal([]cty.Value{cty.StringVal("bfloat16"), cty.StringVal("fp8")})}),
		"system": cty.ObjectVal(map[string]cty.Value{
			"h200_sxm": cty.ObjectVal(
				map[string]cty.Value{"sm_version": cty.NumberIntVal(90), "mem": cty.NumberIntVal(150_000_000_000)}),
		}),
		"collect": cty.ObjectVal(
			map[string]cty.Value{"x": cty.ObjectVal(map[string]cty.Value{"rows": cty.UnknownVal(cty.Number)})}),
	}}
}

func parseBody(t rapid.TB, src string) hcl.Body {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(src), "grid.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("test plan does not parse: %v", diags)
	}
	return f.Body
}

// testParts parses part blocks and returns a scope that contains them.
func testParts(t rapid.TB, src string) (testEval, PartOf) {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(src), "parts.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("parts do not parse: %v", diags)
	}

	capsule := cty.Capsule("part", reflect.TypeFor[Part]())
	own, grids := testScope(), testScope()
	parts := map[string]cty.Value{}
	for _, b := range f.Body.(*hclsyntax.Body).Blocks {
		parts[b.Labels[0]] = cty.CapsuleVal(capsule,
			&Part{Name: "part." + b.Labels[0], Body: b.Body, Eval: own, Range: b.Range()})
	}

	own.vars["local"] = cty.ObjectVal(map[string]cty.Value{"here": cty.NumberIntVal(2)})
	own.vars["part"], grids.vars["part"] = cty.ObjectVal(parts), cty.ObjectVal(parts)
	return grids, func(v cty.Value) (*Part, error) {
		if v.Type() != capsule {
			return nil, fmt.Errorf("this is %s", v.Type().FriendlyName())
		}
		return v.EncapsulatedValue().(*Part), nil
	}
}

func mustDecode(t rapid.TB, src string) *Spec {
	t.Helper()
	spec, diags := Decode(parseBody(t, src), testScope(), nil)
	if diags.HasErrors() {
		t.Fatalf("decode: %v", diags)
	}
	return spec
}

func mustExpand(t rapid.TB, spec *Spec) *Cases {
	t.Helper()
	c, diags := Expand(spec)
	if diags.HasErrors() {
		t.Fatalf("expand: %v", diags)
	}
	return c
}
