package grid

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// distinct returns the indices of the kept combinations that become cases, in loop order. It keeps
// one combination per key of the distinct block, and of these one per set of column values.
func (w *walker) distinct(spec *Spec) ([]int32, hcl.Diagnostics) {
	stay := upTo(w.kept)

	if d := spec.Distinct; d != nil {
		rank, diags := w.rank(d)
		if diags.HasErrors() {
			return nil, diags
		}

		stay = w.firstPerKey(stay, d.By, rank)
		if !slices.ContainsFunc(spec.Columns, func(c string) bool { return !slices.Contains(d.By, c) }) {
			return stay, nil
		}
	}

	return w.firstPerKey(stay, spec.Columns, nil), nil
}

// firstPerKey keeps one combination per key, where the key is made of the values of names. It keeps
// the one with the smallest rank, or the first if ranks are equal or rank is nil.
func (w *walker) firstPerKey(in []int32, names []string, rank []int32) []int32 {
	key := newKeyer(w, names)

	winners := make([]int32, 0, len(in)) // in order of the first appearance of the key
	known := make(map[string]int32, len(in))
	for _, i := range in {
		k := key.of(i)
		at, seen := known[k]
		switch {
		case !seen:
			known[k] = int32(len(winners))
			winners = append(winners, i)
		case rank != nil && rank[i] < rank[winners[at]]:
			winners[at] = i
		}
	}

	if rank != nil {
		slices.Sort(winners)
	}

	return winners
}

// keyer builds comparable keys from values. Values that are equal in a table have equal keys.
type keyer struct {
	cols    [][]int32
	classes [][]int32 // dictionary index -> class of equal canonical text
	buf     []byte
}

func newKeyer(w *walker, names []string) *keyer {
	k := &keyer{}
	for _, name := range names {
		v, ids := w.columnOf(name)
		class := make([]int32, len(v.vals))
		byText := map[string]int32{}
		for id, val := range v.vals {
			text := canonical(val)
			c, ok := byText[text]
			if !ok {
				c = int32(len(byText))
				byText[text] = c
			}

			class[id] = c
		}

		k.cols, k.classes = append(k.cols, ids), append(k.classes, class)
	}

	return k
}

// of returns the key of combination i.
func (k *keyer) of(i int32) string {
	k.buf = k.buf[:0]
	for c := range k.cols {
		k.buf = binary.LittleEndian.AppendUint32(k.buf, uint32(k.classes[c][k.cols[c][i]]))
	}
	return string(k.buf)
}

// rank returns the rank of the compared value of every kept combination, or nil if none is compared. Equal
// values have equal ranks; nulls come last.
func (w *walker) rank(d *Distinct) ([]int32, hcl.Diagnostics) {
	if d.Of == nil {
		return nil, nil
	}
	of, ids := w.columnOf(d.Of.Name)
	for _, v := range of.vals {
		if !v.IsNull() && !v.Type().IsPrimitiveType() {
			return nil, hcl.Diagnostics{errorAt(d.Of.Range, "Wrong type",
				"of must be a finite number, string or bool, not %s.", friendly(v))}
		}
	}
	if _, why := columnKind(of.vals); why != "" {
		return nil, hcl.Diagnostics{errorAt(d.Of.Range, "Mixed types",
			"The value of of %s; such values cannot be compared.", why)}
	}

	order := upTo(len(of.vals))
	slices.SortFunc(order, func(a, b int32) int { return compare(of.vals[a], of.vals[b]) })
	rank := make([]int32, len(order))
	for r, id := range order {
		rank[id] = int32(r)
	}

	return pick(rank, ids), nil
}

// compare orders different values of one type. Null comes last.
func compare(a, b cty.Value) int {
	switch {
	case a.IsNull():
		return 1
	case b.IsNull():
		return -1
	case a.Type() == cty.Number:
		return a.AsBigFloat().Cmp(b.AsBigFloat())
	case a.Type() == cty.Bool:
		return strings.Compare(canonical(a), canonical(b)) // false, true
	}
	return strings.Compare(a.AsString(), b.AsString())
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}
