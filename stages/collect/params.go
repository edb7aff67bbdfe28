package collect

import (
	"bytes"
	"math/big"
	"strconv"

	"github.com/zclconf/go-cty/cty"
)

// text formats a parameter for people. Strings have no quotes.
func text(v cty.Value) string {
	switch {
	case v.IsNull():
		return "null"

	case v.Type() == cty.String:
		return v.AsString()

	case v.Type() == cty.Bool:
		if v.True() {
			return "true"
		}
		return "false"

	case v.Type() == cty.Number:
		// Text is slow, and it formats large integers with an exponent.
		f := v.AsBigFloat()
		if i, acc := f.Int64(); acc == big.Exact {
			return strconv.FormatInt(i, 10)
		}
		return f.Text('g', -1)
	}

	return v.GoString()
}

// params returns the parameters of a unit as one JSON object.
func (j *job) params(u *unit) []byte {
	raw := j.cases.ParamsJSON(int(u.task))
	if s := j.sweepOf(int(u.task)); s != nil {
		return mergeObjects(raw, s.raw[u.point])
	}
	return raw
}

// mergeObjects joins two JSON objects with disjoint keys.
func mergeObjects(a, b []byte) []byte {
	if len(a) <= 2 {
		return b
	}
	if len(b) <= 2 {
		return a
	}
	out := append(bytes.Clone(a[:len(a)-1]), ',')
	return append(out, b[1:]...)
}
