package config

import (
	"math/big"
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"pgregory.net/rapid"

	"aicplan/engine/stage"
)

// anyValue draws values of every shape: unknown, null, marked and too large ones
// too.
func anyValue(t *rapid.T, depth int) cty.Value {
	leaves := []func() cty.Value{
		func() cty.Value { return cty.UnknownVal(cty.Number) },
		func() cty.Value { return cty.DynamicVal },
		func() cty.Value { return cty.NullVal(cty.Map(cty.String)) },
		func() cty.Value { return cty.StringVal(rapid.String().Draw(t, "text")) },
		func() cty.Value {
			return cty.NumberVal(new(big.Float).SetMantExp(big.NewFloat(0.75), rapid.SampledFrom([]int{0, mostExponent, mostExponent + 1, -mostExponent - 1}).Draw(t, "exponent")))
		},
		func() cty.Value { return cty.ListVal([]cty.Value{cty.StringVal("a"), cty.UnknownVal(cty.String)}) },
		func() cty.Value { return cty.SetVal([]cty.Value{cty.NumberIntVal(1), cty.NumberIntVal(2)}) },
		func() cty.Value { return cty.EmptyObjectVal },
	}
	if depth == 0 {
		return rapid.SampledFrom(leaves).Draw(t, "leaf")()
	}
	part := func() cty.Value { return anyValue(t, depth-1) }
	return rapid.SampledFrom(append(leaves,
		func() cty.Value { return cty.TupleVal([]cty.Value{part(), part(), part()}) },
		func() cty.Value {
			return cty.ObjectVal(map[string]cty.Value{"a": part(), "b": part(), "\u00e9": part()})
		},
		func() cty.Value { return cty.ListVal([]cty.Value{part()}) },
		func() cty.Value { return cty.MapVal(map[string]cty.Value{"k": part()}) },
		func() cty.Value { return part().Mark(stage.Sensitive) },
	)).Draw(t, "whole")()
}

// What whollyKnown and bounded say is what a walk through all parts says.
func TestSurveyOfValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := cty.TupleVal([]cty.Value{anyValue(t, 3), anyValue(t, 3), anyValue(t, 3)})
		inside := true
		plain, _ := v.UnmarkDeep()
		if err := cty.Walk(plain, func(_ cty.Path, v cty.Value) (bool, error) {
			inside = inside && (v.Type() != cty.Number || !v.IsKnown() || v.IsNull() || !outOfBounds(v.AsBigFloat()))
			return true, nil
		}); err != nil {
			t.Fatal(err)
		}
		if bounded(v) != inside {
			t.Errorf("bounded is %v of %#v", bounded(v), v)
		}
		if whollyKnown(v) != v.IsWhollyKnown() {
			t.Errorf("whollyKnown is %v of %#v", whollyKnown(v), v)
		}
	})
}

// distinct is the library's, whatever the list holds.
func TestDistinctIsTheLibrarys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.IntRange(0, 2).Draw(t, "kind")
		list := []cty.Value{}
		for range rapid.IntRange(0, 12).Draw(t, "length") {
			switch n := rapid.IntRange(0, 3).Draw(t, "value"); {
			case kind == 0:
				list = append(list, cty.NumberIntVal(int64(n)))
			case kind == 1 && n == 3:
				list = append(list, rapid.SampledFrom([]cty.Value{cty.NullVal(cty.String), cty.UnknownVal(cty.String)}).Draw(t, "odd"))
			default:
				list = append(list, cty.StringVal(string(rune('a'+n))))
			}
		}
		arg := cty.ListValEmpty(cty.String)
		if len(list) > 0 {
			arg = cty.ListVal(list)
		}
		if slices.ContainsFunc(list, cty.Value.IsNull) && rapid.Bool().Draw(t, "marked") {
			arg = arg.Mark(stage.Sensitive)
		}
		got, err := distinctFunc.Call([]cty.Value{arg})
		want, wrong := stdlib.DistinctFunc.Call([]cty.Value{arg})
		if (err == nil) != (wrong == nil) || err == nil && !got.RawEquals(want) {
			t.Errorf("%#v, %v, want %#v, %v", got, err, want, wrong)
		}
	})
}
