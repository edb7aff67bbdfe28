package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Operator is an operator of PyTorch with the shapes of its inputs, from an execution trace.
type Operator struct {
	Name   string          `json:"name"`
	Shapes json.RawMessage `json:"shapes"` // a list with the dimensions of each input; [] for scalars
	Types  []string        `json:"types"`
	Count  int64           `json:"count"`
	size   int64           // elements of the inputs of one call
}

// Operators are the operators of one rank, with the largest inputs first.
type Operators struct {
	File string
	Rank *int // from the file name
	List []Operator
}

// IsExecutionTrace reports whether a file is an execution trace of PyTorch, which has operators and no kernels.
func IsExecutionTrace(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // reading it as a trace reports the error
	}
	defer f.Close()

	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return false
		}
		defer z.Close()
		r = z
	}

	head := make([]byte, 4096)
	n, _ := io.ReadFull(r, head) // a shorter file is one, too
	head = bytes.TrimSpace(head[:n])
	return bytes.HasPrefix(head, []byte("{")) && bytes.Contains(head, []byte(`"schema"`)) && bytes.Contains(head, []byte(`"nodes"`)) &&
		!bytes.Contains(head, []byte(`"traceEvents"`))
}

// ReadOperators reads an execution trace of PyTorch (torch_et_<rank>.json) and counts its operators by name and
// shapes of their inputs. Operators without tensors are left out. top limits the list. Errors contain the path.
func ReadOperators(path string, top int) (*Operators, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: gzip: %w", path, err)
		}
	}

	found := map[string]*Operator{}
	s := newScanner(r)
	if err := nodes(s, func(node []byte) { operator(node, found) }); err != nil {
		return nil, fmt.Errorf("%s: byte %d: %w", path, s.offset(), err)
	}

	out := &Operators{File: path, Rank: RankOfName(filepath.Base(path)), List: []Operator{}}
	for _, o := range found {
		out.List = append(out.List, *o)
	}
	slices.SortFunc(out.List, func(a, b Operator) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name),
			bytes.Compare(a.Shapes, b.Shapes))
	})
	out.List = out.List[:min(top, len(out.List))]
	return out, nil
}

// nodes calls f for each element of the member "nodes" of an execution trace.
func nodes(s *scanner, f func(node []byte)) error {
	if s.token() != '{' {
		return errNoObject
	}
	s.pos++

	for {
		switch s.token() {
		case ',':
			s.pos++
			continue
		case '"':
		default:
			return fmt.Errorf("the execution trace has no nodes")
		}

		key, err := s.value()
		if err != nil {
			return err
		}
		isNodes := string(key) == `"nodes"`
		if s.token() != ':' {
			return errSyntax
		}
		s.pos++

		if !isNodes {
			if _, err := s.value(); err != nil {
				return err
			}
			continue
		}

		if s.token() != '[' {
			return fmt.Errorf("nodes is not a list")
		}
		s.pos++
		for s.token() != ']' {
			if s.token() == ',' {
				s.pos++
				continue
			}
			node, err := s.value()
			if err != nil {
				return err
			}
			f(node)
		}
		return nil
	}
}

// operator counts the operator of a node. Nodes of threads, of ranges and of scalars have no shapes.
func operator(node []byte, found map[string]*Operator) {
	var n struct {
		Name   string `json:"name"`
		Inputs struct {
			Shapes json.RawMessage `json:"shapes"`
			Types  []string        `json:"types"`
		} `json:"inputs"`
		// Versions before 1.1 have shapes and types beside the inputs.
		Shapes json.RawMessage `json:"input_shapes"`
		Types  []string        `json:"input_types"`
	}
	if json.Unmarshal(node, &n) != nil {
		// The old form has a list of inputs, which is no object.
		n.Inputs.Shapes, n.Inputs.Types = nil, nil
	}

	o := Operator{Name: n.Name, Shapes: n.Inputs.Shapes, Types: n.Inputs.Types}
	if o.Shapes == nil {
		o.Shapes, o.Types = n.Shapes, n.Types
	}
	var shapes []any
	if json.Unmarshal(o.Shapes, &shapes) != nil {
		return
	}
	if o.size = elements(shapes); o.size == 0 {
		return
	}

	var text bytes.Buffer
	if json.Compact(&text, o.Shapes) != nil {
		return
	}
	o.Shapes = text.Bytes()
	key := n.Name + "\x00" + text.String() + "\x00" + strings.Join(o.Types, ",")
	if found[key] == nil {
		found[key] = &o
	}
	found[key].Count++
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
	if len(list) > 0 {
		n = plus(n, product)
	}
	return n
}

// attach adds operators to the results of their rank. It returns an error if there is no such result.
func (o *Operators) attach(results []*Analysis) error {
	found := false
	for _, r := range results {
		if o.Rank != nil && r.Rank != nil && *o.Rank == *r.Rank || len(results) == 1 && (o.Rank == nil || r.Rank == nil) {
			r.Operators, found = o.List, true
		}
	}

	if found {
		return nil
	}
	rank := "an unknown rank"
	if o.Rank != nil {
		rank = fmt.Sprintf("rank %d", *o.Rank)
	}
	return fmt.Errorf("%s: it is an execution trace of %s, which has shapes and no times; give it together with the Kineto trace of its rank",
		o.File, rank)
}

// ReadAll reads the traces of a run, aligns their ranks, and adds the operators of execution traces to the
// results of the same rank. The errors are those of single files, the note is that of [Align].
func ReadAll(paths []string, o Options) (results []*Analysis, note string, errs []error) {
	var operators []*Operators
	for _, path := range paths {
		if IsExecutionTrace(path) {
			of, err := ReadOperators(path, o.Top)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			operators = append(operators, of)
			continue
		}

		res, err := Read(path, o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		results = append(results, res...)
	}

	note = Align(results)
	for _, of := range operators {
		if err := of.attach(results); err != nil {
			errs = append(errs, err)
		}
	}
	return results, note, errs
}
