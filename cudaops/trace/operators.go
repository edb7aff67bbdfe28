package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Operator is an operator of PyTorch with the shapes of its inputs, from an execution trace.
type Operator struct {
	Name   string          `json:"name"`
	Shapes json.RawMessage `json:"shapes"` // a list with the dimensions of each input; [] for scalars
	Types  []string        `json:"types"`
	Count  int64           `json:"count"`
	size   int64           // elements of the inputs of one call
}

// noTimes is the error of an execution trace without the trace of its rank.
const noTimes = "it is an execution trace, which has shapes and no times; give it together with the Kineto trace of " +
	"its rank"

// Join adds the operators of execution traces (torch_et_<rank>.json) to the results of the same rank, and removes
// the results of those files. An execution trace without such a result remains, with Error set.
func Join(results []*Analysis) []*Analysis {
	var timed, shapes []*Analysis
	for _, r := range results {
		if r.Operators == nil {
			timed = append(timed, r)
		} else {
			shapes = append(shapes, r)
		}
	}

	for _, of := range shapes {
		found := false
		for _, r := range timed {
			if of.Rank != nil && r.Rank != nil && *of.Rank == *r.Rank ||
				len(timed) == 1 && (of.Rank == nil || r.Rank == nil) {
				r.Operators, found = of.Operators, true
			}
		}
		if !found {
			timed = append(timed, of)
		}
	}

	return timed
}

// readNodes reads the nodes of an execution trace including the closing bracket.
func readNodes(s *scanner, rec *recording) error {
	rec.operators = map[string]*Operator{}
	return elementsOf(s, rec, func(node []byte) error {
		rec.operator(node)
		return nil
	})
}

// operator counts the operator of a node. Nodes of threads, of ranges and of scalars have no shapes.
func (r *recording) operator(node []byte) {
	var n struct {
		Name   string `json:"name"`
		Inputs struct {
			Shapes json.RawMessage `json:"shapes"`
			Types  []string        `json:"types"`
		} `json:"inputs"`
		// Versions before 1.1 have shapes and types beside a list of inputs.
		Shapes json.RawMessage `json:"input_shapes"`
		Types  []string        `json:"input_types"`
	}
	_ = json.Unmarshal(node, &n) // a list of inputs is an error, and the other members are set

	o := Operator{Name: n.Name, Shapes: n.Inputs.Shapes, Types: n.Inputs.Types}
	if o.Shapes == nil {
		o.Shapes, o.Types = n.Shapes, n.Types
	}

	var shapes []any
	var text bytes.Buffer
	if json.Unmarshal(o.Shapes, &shapes) != nil || json.Compact(&text, o.Shapes) != nil {
		return
	}
	if o.size = elements(shapes); o.size == 0 {
		return
	}

	o.Shapes = text.Bytes()
	key := n.Name + "\x00" + text.String() + "\x00" + strings.Join(o.Types, ",")
	if r.operators[key] == nil {
		r.operators[key] = &o
	}
	r.operators[key].Count++
}

// largest returns the operators with the largest inputs first.
func (r *recording) largest(top int) []Operator {
	out := []Operator{}
	for _, o := range r.operators {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b Operator) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name),
			bytes.Compare(a.Shapes, b.Shapes), slices.Compare(a.Types, b.Types))
	})
	return out[:min(top, len(out))]
}

// elements returns the number of elements of all tensors in a list of shapes, which may be nested.
func elements(list []any) (n int64) {
	product := int64(1)
	for _, v := range list {
		switch v := v.(type) {
		case []any:
			n, product = plus(n, elements(v)), 0
		case float64:
			if product *= int64(v); product < 0 || product > maxMessage {
				product = maxMessage
			}
		}
	}

	if len(list) == 0 {
		return 0
	}
	return plus(n, product)
}
