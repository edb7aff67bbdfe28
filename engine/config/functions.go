package config

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"aicplan/sink/phrase"
)

// setproductLimit bounds what a plan may build element by element in HCL;
// large products belong into a grid.
const setproductLimit = 20000

// Functions returns the pure functions that plans may call. None of them reads
// the clock, the environment or a file: the same plan means the same cases
// everywhere.
func Functions() map[string]function.Function {
	return map[string]function.Function{
		// numbers
		"abs":      stdlib.AbsoluteFunc,
		"ceil":     stdlib.CeilFunc,
		"ceil_div": ceilDivFunc,
		"floor":    stdlib.FloorFunc,
		"log":      logFunc,
		"max":      stdlib.MaxFunc,
		"min":      stdlib.MinFunc,
		"pow":      powFunc,
		"signum":   stdlib.SignumFunc,
		"sum":      sumFunc,
		"parseint": stdlib.ParseIntFunc,
		// collections
		"alltrue":         allTrueFunc,
		"anytrue":         anyTrueFunc,
		"chunklist":       stdlib.ChunklistFunc,
		"coalesce":        stdlib.CoalesceFunc,
		"coalescelist":    stdlib.CoalesceListFunc,
		"compact":         stdlib.CompactFunc,
		"concat":          stdlib.ConcatFunc,
		"contains":        containsFunc,
		"did_you_mean":    didYouMeanFunc,
		"distinct":        distinctFunc,
		"element":         stdlib.ElementFunc,
		"flatten":         stdlib.FlattenFunc,
		"index":           indexFunc,
		"keys":            stdlib.KeysFunc,
		"length":          stdlib.LengthFunc,
		"line_of":         lineOfFunc(nil),
		"lookup":          stdlib.LookupFunc,
		"merge":           stdlib.MergeFunc,
		"one":             oneFunc,
		"powers":          powersFunc,
		"range":           rangeFunc,
		"reverse":         stdlib.ReverseListFunc,
		"setintersection": stdlib.SetIntersectionFunc,
		"setproduct":      boundedSetProduct,
		"setsubtract":     stdlib.SetSubtractFunc,
		"setunion":        stdlib.SetUnionFunc,
		"slice":           stdlib.SliceFunc,
		"sort":            sortFunc,
		"values":          stdlib.ValuesFunc,
		"zipmap":          stdlib.ZipmapFunc,
		// strings
		"endswith":   endsWithFunc,
		"format":     formatFunc,
		"formatlist": formatListFunc,
		"join":       stdlib.JoinFunc,
		"lower":      stdlib.LowerFunc,
		"regex":      stdlib.RegexFunc,
		"regexall":   stdlib.RegexAllFunc,
		"replace":    stdlib.ReplaceFunc,
		"split":      stdlib.SplitFunc,
		"startswith": startsWithFunc,
		"strlen":     stdlib.StrlenFunc,
		"substr":     stdlib.SubstrFunc,
		"trim":       stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc,
		"trimsuffix": stdlib.TrimSuffixFunc,
		"upper":      stdlib.UpperFunc,
		// conversion
		"can":        tryfunc.CanFunc,
		"jsondecode": jsonDecodeFunc,
		"jsonencode": stdlib.JSONEncodeFunc,
		"tobool":     toFunc("tobool", cty.Bool),
		"tolist":     toListFunc,
		"tonumber":   toFunc("tonumber", cty.Number),
		"toset":      toSetFunc,
		"tostring":   toFunc("tostring", cty.String),
		"try":        tryfunc.TryFunc,
	}
}

var ceilDivFunc = function.New(&function.Spec{
	Description: "smallest integer >= a / b",
	Params:      []function.Parameter{{Name: "a", Type: cty.Number}, {Name: "b", Type: cty.Number}},
	Type:        function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if args[1].RawEquals(cty.Zero) {
			return cty.NilVal, function.NewArgErrorf(1, "division by zero")
		}
		return stdlib.Ceil(args[0].Divide(args[1]))
	},
})

// distinctFunc is that of the library, which compares each element with all before
// it: strings are looked up.
var distinctFunc = function.New(&function.Spec{
	Description: stdlib.DistinctFunc.Description(),
	Params:      stdlib.DistinctFunc.Params(),
	Type:        stdlib.DistinctFunc.ReturnTypeForValues,
	Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) {
		if t.ElementType() != cty.String || !args[0].IsWhollyKnown() {
			return stdlib.DistinctFunc.Call(args)
		}
		seen, kept := map[string]bool{}, []cty.Value{}
		for _, v := range args[0].AsValueSlice() {
			if v.IsNull() {
				return stdlib.DistinctFunc.Call(args)
			}
			if s := v.AsString(); !seen[s] {
				seen[s], kept = true, append(kept, v)
			}
		}
		if len(kept) == 0 {
			return args[0], nil
		}
		return cty.ListVal(kept), nil
	},
})

var sumFunc = function.New(&function.Spec{
	Description: "sum of a list of numbers",
	Params:      []function.Parameter{{Name: "list", Type: cty.List(cty.Number)}},
	Type:        function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		total := cty.Zero
		for _, v := range args[0].AsValueSlice() {
			if v.IsNull() {
				return cty.NilVal, function.NewArgErrorf(0, "an element is null")
			}
			total = total.Add(v)
		}
		return total, nil
	},
})

var didYouMeanFunc = function.New(&function.Spec{
	Description: "the word of a list that is most likely meant, or \"\"; upper case and what stands before the last / do not count",
	Params:      []function.Parameter{{Name: "word", Type: cty.String}, {Name: "list", Type: cty.List(cty.String)}},
	Type:        function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
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
			best = whole[phrase.Nearest(word, names)]
		}
		return cty.StringVal(best), nil
	},
})

var allTrueFunc = boolFold("true when every element is true", true)
var anyTrueFunc = boolFold("true when an element is true", false)

func boolFold(description string, all bool) function.Function {
	return function.New(&function.Spec{
		Description: description,
		Params:      []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
		Type:        function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
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
		},
	})
}

// containsFunc takes lists, sets and tuples and compares a value of another
// type as unequal instead of failing, so that null axes can be tested.
var containsFunc = function.New(&function.Spec{
	Description: "whether a list, set or tuple holds a value",
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
		for it := list.ElementIterator(); it.Next(); {
			_, v := it.Element()
			eq := sameValue(v, want)
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

func sameValue(a, b cty.Value) cty.Value {
	if !a.IsKnown() || !b.IsKnown() {
		return cty.UnknownVal(cty.Bool)
	}
	if a.IsNull() || b.IsNull() {
		return cty.BoolVal(a.IsNull() && b.IsNull())
	}
	if !a.Type().Equals(b.Type()) {
		return cty.False
	}
	return a.Equals(b)
}

var indexFunc = function.New(&function.Spec{
	Description: "position of a value in a list",
	Params: []function.Parameter{
		{Name: "list", Type: cty.DynamicPseudoType},
		{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true},
	},
	Type: function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		t := args[0].Type()
		if !t.IsTupleType() && !t.IsListType() {
			return cty.NilVal, function.NewArgErrorf(0, "a list or tuple is needed, not %s", t.FriendlyName())
		}
		for i, v := range args[0].AsValueSlice() {
			eq := sameValue(v, args[1])
			if !eq.IsKnown() {
				return cty.UnknownVal(cty.Number), nil
			}
			if eq.True() {
				return cty.NumberIntVal(int64(i)), nil
			}
		}
		return cty.NilVal, function.NewArgErrorf(1, "the list has no such element")
	},
})

var oneFunc = function.New(&function.Spec{
	Description: "the only element of a list, or null when it is empty",
	Params:      []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type:        function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if !args[0].CanIterateElements() {
			return cty.NilVal, function.NewArgErrorf(0, "a list, set or tuple is needed")
		}
		vs := args[0].AsValueSlice()
		switch len(vs) {
		case 0:
			return cty.NullVal(cty.DynamicPseudoType), nil
		case 1:
			return vs[0], nil
		}
		return cty.NilVal, function.NewArgErrorf(0, "the list has %d elements, at most one is allowed", len(vs))
	},
})

// powersFunc lists base^from .. base^to: the shape of most size axes.
var powersFunc = function.New(&function.Spec{
	Description: "powers(base, from, to): base^from up to base^to, both included",
	Params: []function.Parameter{
		{Name: "base", Type: cty.Number}, {Name: "from", Type: cty.Number}, {Name: "to", Type: cty.Number},
	},
	Type: function.StaticReturnType(cty.List(cty.Number)),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
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
	},
})

// sortFunc sorts numbers by value and strings by byte order; the standard
// library's sort would turn numbers into strings.
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

var boundedSetProduct = function.New(&function.Spec{
	Description: "every combination of elements of lists; bounded, use a grid for large products",
	VarParam:    &function.Parameter{Name: "sets", Type: cty.DynamicPseudoType},
	Type: func(args []cty.Value) (cty.Type, error) {
		n := 1
		for i, a := range args {
			if a.IsKnown() && !a.IsNull() && a.CanIterateElements() {
				n *= a.LengthInt()
				if n > setproductLimit {
					return cty.NilType, function.NewArgErrorf(i, "the product has more than %d elements: declare the lists as axes of a grid instead", setproductLimit)
				}
			}
		}
		return stdlib.SetProductFunc.ReturnTypeForValues(args)
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return stdlib.SetProduct(args...) },
})
