package config

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

func sortValues(l cty.Value, t cty.Type) (cty.Value, error) {
	vs := l.AsValueSlice()
	for _, v := range vs {
		if v.IsNull() {
			return cty.NilVal, function.NewArgErrorf(0, "an element is null")
		}
	}
	switch t.ElementType() {
	case cty.Number:
		sort.SliceStable(vs, func(i, j int) bool { return vs[i].LessThan(vs[j]).True() })
	case cty.String:
		sort.SliceStable(vs, func(i, j int) bool { return vs[i].AsString() < vs[j].AsString() })
	default:
		return cty.NilVal, function.NewArgErrorf(0, "only numbers or strings can be sorted, not %s", t.ElementType().FriendlyName())
	}
	if len(vs) == 0 {
		return cty.ListValEmpty(t.ElementType()), nil
	}
	return cty.ListVal(vs), nil
}

// logFunc and powFunc say what is wrong where the standard library's panic or
// answer with infinity.
var (
	logFunc = floatFunc("logarithm of a number to a base", [2]string{"num", "base"}, func(num, base float64) (float64, error) {
		if num <= 0 || base <= 0 || base == 1 {
			return 0, fmt.Errorf("there is no logarithm of %v to the base %v", num, base)
		}
		return math.Log(num) / math.Log(base), nil
	})
	powFunc = floatFunc("a number to the power of another", [2]string{"num", "power"}, func(num, power float64) (float64, error) {
		v := math.Pow(num, power)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("%v to the power of %v is not a finite number", num, power)
		}
		return v, nil
	})
)

func floatFunc(description string, names [2]string, f func(a, b float64) (float64, error)) function.Function {
	return function.New(&function.Spec{
		Description: description,
		Params:      []function.Parameter{{Name: names[0], Type: cty.Number}, {Name: names[1], Type: cty.Number}},
		Type:        function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			a, _ := args[0].AsBigFloat().Float64()
			b, _ := args[1].AsBigFloat().Float64()
			v, err := f(a, b)
			if err != nil {
				return cty.NilVal, err
			}
			return cty.NumberFloatVal(v), nil
		},
	})
}

func affixFunc(description string, has func(s, affix string) bool) function.Function {
	return function.New(&function.Spec{
		Description: description,
		Params:      []function.Parameter{{Name: "str", Type: cty.String}, {Name: "affix", Type: cty.String}},
		Type:        function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(has(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

var (
	startsWithFunc = affixFunc("whether a string begins with another", strings.HasPrefix)
	endsWithFunc   = affixFunc("whether a string ends with another", strings.HasSuffix)
)

// toFunc converts one value to a primitive type.
func toFunc(name string, want cty.Type) function.Function {
	return function.New(&function.Spec{
		Description: "convert to " + want.FriendlyName(),
		Params:      []function.Parameter{{Name: "v", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true}},
		Type:        function.StaticReturnType(want),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := convert.Convert(args[0], want)
			if err == nil && !bounded(v) {
				err = errors.New("it is out of bounds")
			}
			if err != nil {
				return cty.NilVal, function.NewArgErrorf(0, "%s cannot convert %s: %s", name, args[0].Type().FriendlyName(), err)
			}
			return v, nil
		},
	})
}

var (
	toListFunc = toCollection("convert to a list", cty.List(cty.DynamicPseudoType))
	toSetFunc  = toCollection("convert to a set", cty.Set(cty.DynamicPseudoType))
)

func toCollection(description string, want cty.Type) function.Function {
	return function.New(&function.Spec{
		Description: description,
		Params:      []function.Parameter{{Name: "v", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true}},
		Type: func(args []cty.Value) (cty.Type, error) {
			v, err := convert.Convert(args[0], want)
			if err != nil {
				return cty.NilType, function.NewArgError(0, err)
			}
			return v.Type(), nil
		},
		Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) { return convert.Convert(args[0], t) },
	})
}

// jsonDecodeFunc is that of the library, with numbers within bounds.
var jsonDecodeFunc = function.New(&function.Spec{
	Description: stdlib.JSONDecodeFunc.Description(),
	Params:      stdlib.JSONDecodeFunc.Params(),
	Type:        stdlib.JSONDecodeFunc.ReturnTypeForValues,
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v, err := stdlib.JSONDecodeFunc.Call(args)
		if err == nil && !bounded(v) {
			err = function.NewArgErrorf(0, "a number is out of bounds")
		}
		return v, err
	},
})
