package grid

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// exactKey returns a key that identifies a value: two values have the same key if and only if no
// expression can distinguish them. Numbers are compared by value, regardless of their precision.
func exactKey(v cty.Value) string {
	switch {
	case v.IsNull():
		return "0"

	case v.Type() == cty.Number:
		f := v.AsBigFloat()
		if i, acc := f.Int64(); acc == big.Exact {
			return "n" + strconv.FormatInt(i, 10)
		}
		return "n" + f.Text('p', 0)

	case v.Type() == cty.String:
		return "s" + v.AsString()

	case v.Type() == cty.Bool:
		if v.True() {
			return "t"
		}
		return "f"

	case v.CanIterateElements():
		var b strings.Builder
		b.WriteString("c" + v.Type().FriendlyName() + "[")
		for k, e := range v.Elements() {
			for _, part := range []string{exactKey(k), exactKey(e)} {
				fmt.Fprintf(&b, "%d:%s", len(part), part)
			}
		}

		b.WriteByte(']')
		return b.String()
	}
	return fmt.Sprintf("x%#v", v)
}

// canonical returns the text of a known primitive value in case IDs, samples and messages: null, true,
// false, integers in decimal, other numbers as the shortest text of the nearest float64 (with all digits if no
// column keeps them), strings quoted as in JSON. Values that are equal in a table have the same text.
func canonical(v cty.Value) string {
	switch {
	case v.IsNull():
		return "null"
	case v.Type() == cty.Bool:
		return strconv.FormatBool(v.True())
	case v.Type() == cty.String:
		return quoteJSON(v.AsString())
	case v.Type() == cty.Number:
		f := v.AsBigFloat()
		if i, acc := f.Int64(); acc == big.Exact {
			return strconv.FormatInt(i, 10)
		}
		if digits := tooLong(f); digits != "" {
			return digits
		}
		x, _ := f.Float64()
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return display(v)
}

// tooLong returns the digits of an integer outside of int64 that differs from the nearest float64 and from its shortest
// text, or "". Above precision, the digits of an integer are rounded already.
func tooLong(f *big.Float) string {
	x, acc := f.Float64()
	if acc == big.Exact || !f.IsInt() || f.MantExp(nil) > precision {
		return ""
	}
	if _, acc := f.Int64(); acc == big.Exact {
		return ""
	}

	text := strconv.FormatFloat(x, 'g', -1, 64)
	if short, _, err := big.ParseFloat(text, 10, precision, big.ToNearestEven); err == nil && short.Cmp(f) == 0 {
		return ""
	}
	return f.Text('f', 0)
}

// display formats any value for messages.
func display(v cty.Value) string {
	switch {
	case !v.IsKnown():
		return "(unknown)"

	case v.IsNull() || v.Type().IsPrimitiveType():
		return canonical(v)

	case v.Type().IsListType() || v.Type().IsTupleType() || v.Type().IsSetType():
		var parts []string
		for _, e := range v.Elements() {
			parts = append(parts, display(e))
			if len(parts) == 12 && v.LengthInt() > 13 {
				parts = append(parts, fmt.Sprintf("and %d more", v.LengthInt()-12))
				break
			}
		}

		return "[" + strings.Join(parts, ", ") + "]"

	case v.CanIterateElements():
		var parts []string
		for k, e := range v.Elements() {
			parts = append(parts, k.AsString()+" = "+display(e))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	return v.Type().FriendlyName()
}

func quoteJSON(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')

	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}

	b.WriteByte('"')
	return b.String()
}

// precision is the precision, in bits, of numbers that HCL parses.
const precision = 512

// wide gives an integer the precision of a number written in a plan. An arithmetic result has the
// largest precision of its operands, so a quotient of two 64-bit integers from the fast path would
// be rounded where HCL does not round.
func wide(v cty.Value) cty.Value {
	if v.Type() != cty.Number || v.IsNull() || !v.IsKnown() {
		return v
	}
	if f := v.AsBigFloat(); f.Prec() < precision && f.IsInt() {
		return cty.NumberVal(f.SetPrec(precision))
	}
	return v
}

// isInt64 reports whether a non-null number is an integer that fits int64.
func isInt64(v cty.Value) bool {
	_, acc := v.AsBigFloat().Int64()
	return acc == big.Exact
}

// finite reports whether a number is finite as a float64.
func finite(v cty.Value) bool {
	f := v.AsBigFloat()
	if f.IsInf() {
		return false
	}
	x, _ := f.Float64()
	return !math.IsInf(x, 0)
}

// unifyColumn converts the values of one name to a common type, so that expressions can be checked
// before they run. Lists of primitives become list(T). Other structures are returned unchanged. It
// returns an error if the values have several primitive types, or mix primitives and collections.
func unifyColumn(vals []cty.Value) ([]cty.Value, error) {
	first := -1 // index of the first value that is not null
	kind := func(i int) string {
		if t := vals[i].Type(); t.IsPrimitiveType() {
			return t.FriendlyName()
		}
		return "collection"
	}
	for i, v := range vals {
		switch {
		case v.IsNull():
		case first < 0:
			first = i
		case kind(i) != kind(first):
			return nil, fmt.Errorf("entry %d is a %s, entry %d a %s", first+1, kind(first), i+1, kind(i))
		}
	}

	if first < 0 {
		return vals, nil
	}
	typ := vals[first].Type()
	if !typ.IsPrimitiveType() {
		typ = listType(vals)
	}
	if typ == cty.DynamicPseudoType {
		return vals, nil
	}

	out := make([]cty.Value, len(vals))
	for i, v := range vals {
		c, err := convert.Convert(v, typ)
		if err != nil {
			return vals, nil
		}
		out[i] = c
	}

	return out, nil
}

// listType returns list(T) if all vals are sequences of one primitive type T, otherwise
// DynamicPseudoType.
func listType(vals []cty.Value) cty.Type {
	elem := cty.DynamicPseudoType
	for _, v := range vals {
		if v.IsNull() {
			continue
		}
		t := v.Type()
		if !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
			return cty.DynamicPseudoType
		}

		for _, e := range v.Elements() {
			switch {
			case e.IsNull():
			case !e.Type().IsPrimitiveType(), elem != cty.DynamicPseudoType && !elem.Equals(e.Type()):
				return cty.DynamicPseudoType
			default:
				elem = e.Type()
			}
		}
	}

	if elem == cty.DynamicPseudoType {
		return elem
	}

	return cty.List(elem)
}
