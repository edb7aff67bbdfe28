package config

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"aicplan/sink/base/textutil"
)

// Functions returns the functions that plans may call. All are pure: none reads the clock, the
// environment or a file, so a plan always defines the same cases.
func Functions() map[string]function.Function {
	return map[string]function.Function{
		// numbers
		"abs":      stdlib.AbsoluteFunc,
		"ceil":     stdlib.CeilFunc,
		"ceil_div": ceilDivFunc,
		"floor":    stdlib.FloorFunc,
		"max":      stdlib.MaxFunc,
		"min":      stdlib.MinFunc,
		"pow":      powFunc,
		// collections
		"alltrue":      boolFold("true when every element is true", true),
		"anytrue":      boolFold("true when an element is true", false),
		"coalesce":     stdlib.CoalesceFunc,
		"compact":      stdlib.CompactFunc,
		"concat":       stdlib.ConcatFunc,
		"contains":     containsFunc,
		"did_you_mean": didYouMeanFunc,
		"distinct":     stdlib.DistinctFunc,
		"element":      stdlib.ElementFunc,
		"flatten":      stdlib.FlattenFunc,
		"keys":         stdlib.KeysFunc,
		"length":       lengthFunc,
		"lookup":       stdlib.LookupFunc,
		"merge":        stdlib.MergeFunc,
		"powers":       powersFunc,
		"range":        rangeFunc,
		"reverse":      stdlib.ReverseListFunc,
		"setsubtract":  stdlib.SetSubtractFunc,
		"setunion":     stdlib.SetUnionFunc,
		"slice":        stdlib.SliceFunc,
		"sort":         sortFunc,
		"values":       stdlib.ValuesFunc,
		// strings
		"format":     stdlib.FormatFunc,
		"join":       stdlib.JoinFunc,
		"lower":      stdlib.LowerFunc,
		"regex":      stdlib.RegexFunc,
		"replace":    stdlib.ReplaceFunc,
		"split":      stdlib.SplitFunc,
		"startswith": startsWithFunc,
		"substr":     stdlib.SubstrFunc,
		"trimprefix": stdlib.TrimPrefixFunc,
		"upper":      stdlib.UpperFunc,
		// conversion
		"can":        tryfunc.CanFunc,
		"jsondecode": stdlib.JSONDecodeFunc,
		"jsonencode": stdlib.JSONEncodeFunc,
		"tobool":     stdlib.MakeToFunc(cty.Bool),
		"tolist":     stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tonumber":   stdlib.MakeToFunc(cty.Number),
		"toset":      stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"tostring":   stdlib.MakeToFunc(cty.String),
		"try":        tryfunc.TryFunc,
	}
}

// define returns a function whose parameters all have one type.
func define(description string, param, result cty.Type, impl func(args []cty.Value) (cty.Value, error),
	params ...string) function.Function {
	spec := &function.Spec{Description: description, Type: function.StaticReturnType(result),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return impl(args) }}
	for _, name := range params {
		spec.Params = append(spec.Params, function.Parameter{Name: name, Type: param})
	}
	return function.New(spec)
}

var ceilDivFunc = define(
	"smallest integer >= a / b",
	cty.Number,
	cty.Number,
	func(args []cty.Value) (cty.Value, error) {
		if args[1].RawEquals(cty.Zero) {
			return cty.NilVal, function.NewArgErrorf(1, "division by zero")
		}
		return stdlib.Ceil(args[0].Divide(args[1]))
	},
	"a",
	"b",
)

var powFunc = define("a number to the power of another", cty.Number, cty.Number,
	func(args []cty.Value) (cty.Value, error) {
		num, _ := args[0].AsBigFloat().Float64()
		power, _ := args[1].AsBigFloat().Float64()
		v := math.Pow(num, power)
		if math.IsNaN(v) || math.IsInf(v, 0) { // the standard library panics or returns infinity
			return cty.NilVal, fmt.Errorf("%v to the power of %v is not a finite number", num, power)
		}
		return cty.NumberFloatVal(v), nil
	}, "num", "power")

var didYouMeanFunc = function.New(&function.Spec{
	Description: "the word of a list that is most likely meant, or \"\"; upper case and what stands before the last / " +
		"do not count",
	Params: []function.Parameter{{Name: "word", Type: cty.String}, {Name: "list", Type: cty.List(cty.String)}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if !args[1].IsWhollyKnown() {
			return cty.UnknownVal(cty.String), nil
		}
		plain := func(s string) string { return strings.ToLower(s[strings.LastIndex(s, "/")+1:]) }
		var names []string
		whole := map[string]string{}
		for _, v := range args[1].AsValueSlice() {
			if v.IsNull() {
				continue
			}
			name := plain(v.AsString())
			if _, twice := whole[name]; !twice {
				whole[name], names = v.AsString(), append(names, name)
			}
		}
		word := plain(args[0].AsString())
		best, there := whole[word]
		if !there {
			best = whole[textutil.Nearest(word, names)]
		}
		return cty.StringVal(best), nil
	},
})

func boolFold(description string, all bool) function.Function {
	return define(description, cty.List(cty.Bool), cty.Bool, func(args []cty.Value) (cty.Value, error) {
		unknown := false
		for _, v := range args[0].AsValueSlice() {
			switch {
			case !v.IsKnown():
				unknown = true
			case v.IsNull() || v.True() != all:
				return cty.BoolVal(!all), nil
			}
		}

		if unknown {
			return cty.UnknownVal(cty.Bool), nil
		}

		return cty.BoolVal(all), nil
	}, "list")
}

// containsFunc accepts lists, sets and tuples. Values of different types are unequal instead of an
// error, so that null axes can be tested.
var containsFunc = function.New(&function.Spec{
	Description: "whether a list, set or tuple contains a value",
	Params: []function.Parameter{
		{Name: "list", Type: cty.DynamicPseudoType},
		{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true},
	},
	Type: function.StaticReturnType(cty.Bool),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		list, want := args[0], args[1]
		t := list.Type()
		if !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
			return cty.NilVal, function.NewArgErrorf(0, "a list, set or tuple is needed, not %s", t.FriendlyName())
		}
		unknown := false
		for _, v := range list.Elements() {
			eq := v.Equals(want)
			if !eq.IsKnown() {
				unknown = true
			} else if eq.True() {
				return cty.True, nil
			}
		}
		if unknown {
			return cty.UnknownVal(cty.Bool), nil
		}
		return cty.False, nil
	},
})

// lengthFunc is like length of the standard library, but also counts the attributes of objects, such as those of a
// for expression, of a module or of stages with for_each.
var lengthFunc = function.New(&function.Spec{
	Description: "the number of elements of a list, set, tuple, map or object",
	Params: []function.Parameter{{Name: "collection", Type: cty.DynamicPseudoType, AllowUnknown: true,
		AllowDynamicType: true, AllowMarked: true}},
	Type: function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if t := args[0].Type(); t.IsObjectType() {
			return cty.NumberIntVal(int64(len(t.AttributeTypes()))).WithSameMarks(args[0]), nil
		}
		return stdlib.Length(args[0])
	},
})

// powersFunc returns base^from .. base^to, the shape of most size axes.
var powersFunc = define("powers(base, from, to): base^from up to base^to, both included", cty.Number,
	cty.List(cty.Number), func(args []cty.Value) (cty.Value, error) {
		from, accuracy := args[1].AsBigFloat().Int64()
		to, accuracy2 := args[2].AsBigFloat().Int64()
		if accuracy != big.Exact || accuracy2 != big.Exact || from < 0 || to < from || to > 1024 {
			return cty.NilVal, fmt.Errorf("the exponents must be whole numbers with 0 <= from <= to <= 1024")
		}
		v := cty.NumberIntVal(1)
		out := make([]cty.Value, 0, to-from+1)
		for e := int64(0); e <= to; e++ {
			if e >= from {
				out = append(out, v)
			}
			v = v.Multiply(args[0])
		}
		return cty.ListVal(out), nil
	}, "base", "from", "to")

// rangeLimit is the maximum number of values that range returns. Longer axes should use powers or a
// larger step, or are a mistake.
const rangeLimit = 20_000

// rangeFunc is like range of the standard library, but with a higher limit on the number of values.
var rangeFunc = function.New(&function.Spec{
	Description: "numbers from the first to below the second, in steps of the third",
	VarParam:    &function.Parameter{Name: "params", Type: cty.Number},
	Type:        function.StaticReturnType(cty.List(cty.Number)),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if len(args) == 1 {
			args = []cty.Value{cty.Zero, args[0]}
		}
		if len(args) == 2 {
			step := cty.NumberIntVal(1)
			if args[1].LessThan(args[0]).True() {
				step = cty.NumberIntVal(-1)
			}
			args = append(args, step)
		}
		if len(args) != 3 {
			return cty.NilVal, fmt.Errorf(
				"range takes one to three numbers: range(END), range(START, END) or range(START, END, STEP)")
		}

		start, end, step := args[0], args[1], args[2]
		direction := step.AsBigFloat().Sign()
		left := func(v cty.Value) int { return direction * end.AsBigFloat().Cmp(v.AsBigFloat()) }
		switch {
		case direction == 0:
			return cty.NilVal, function.NewArgErrorf(2, "the step is 0")
		case left(start) < 0:
			return cty.NilVal, function.NewArgErrorf(1, "the step leads away from END")
		}

		var out []cty.Value
		for v := start; left(v) > 0; v = v.Add(step) {
			if len(out) == rangeLimit {
				return cty.NilVal, fmt.Errorf("range makes at most %d values; use a larger step, or powers(...)",
					rangeLimit)
			}
			out = append(out, v)
		}
		if len(out) == 0 {
			return cty.ListValEmpty(cty.Number), nil
		}
		return cty.ListVal(out), nil
	},
})

// sortFunc sorts numbers by value and strings by byte order. The sort function of the standard
// library would convert numbers to strings.
var sortFunc = function.New(&function.Spec{
	Description: "sort a list of numbers by value, or of strings by byte order",
	Params:      []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		l, err := convert.Convert(args[0], cty.List(cty.DynamicPseudoType))
		if err != nil {
			return cty.NilType, function.NewArgError(0, err)
		}
		return l.Type(), nil
	},
	Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) {
		l, err := convert.Convert(args[0], t)
		if err != nil {
			return cty.NilVal, err
		}
		if !l.IsWhollyKnown() {
			return cty.UnknownVal(t), nil
		}
		return sortValues(l, t)
	},
})

func sortValues(l cty.Value, t cty.Type) (cty.Value, error) {
	vs := l.AsValueSlice()
	for _, v := range vs {
		if v.IsNull() {
			return cty.NilVal, function.NewArgErrorf(0, "an element is null")
		}
	}

	switch t.ElementType() {
	case cty.Number:
		slices.SortFunc(vs, func(a, b cty.Value) int { return a.AsBigFloat().Cmp(b.AsBigFloat()) })
	case cty.String:
		slices.SortFunc(vs, func(a, b cty.Value) int { return strings.Compare(a.AsString(), b.AsString()) })
	default:
		return cty.NilVal, function.NewArgErrorf(0, "only numbers or strings can be sorted, not %s",
			t.ElementType().FriendlyName())
	}

	if len(vs) == 0 {
		return cty.ListValEmpty(t.ElementType()), nil
	}

	return cty.ListVal(vs), nil
}

var startsWithFunc = define("whether a string begins with another", cty.String, cty.Bool,
	func(args []cty.Value) (cty.Value, error) {
		return cty.BoolVal(strings.HasPrefix(args[0].AsString(), args[1].AsString())), nil
	}, "str", "prefix")
