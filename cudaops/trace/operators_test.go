package trace

import (
	"fmt"
	"strings"
	"testing"
)

// Both forms of execution traces are counted by name and shapes, with the largest inputs first.
func TestOperators(t *testing.T) {
	t.Parallel()
	const now = `{"schema": "1.1.1-chakra.0.0.4", "nodes": [
		{"name": "range", "inputs": {"shapes": [], "types": []}}, {"name": "aten::item", "inputs": {"shapes": [[]], "types": ["Tensor(float)"]}},
		{"name": "aten::mm", "inputs": {"shapes": [[4, 8], [8, 16]], "types": ["Tensor(float)", "Tensor(float)"]}},
		{"name": "aten::cat", "inputs": {"shapes": [[[100, 2], [50]], []], "types": ["GenericList[Tensor(float),Tensor(float)]", "Int"]}},
		{"name": "aten::mm", "inputs": {"shapes": [[4,8],[8,16]], "types": ["Tensor(float)", "Tensor(float)"]}}], "finish_ts": 3}`
	const before = `{"schema": "1.0.1", "pid": 3, "nodes": [{"name": "aten::add", "inputs": [[5, 6, 0], 1], ` +
		`"input_shapes": [[3], []], "input_types": ["Tensor(float)", "Int"]}]}`
	for _, c := range []struct{ text, want, warning string }{
		{now, "aten::cat [[[100,2],[50]],[]] 1, aten::mm [[4,8],[8,16]] 2", ""},
		{before, "aten::add [[3],[]] 1", ""},
		{now[:len(now)-60], "aten::cat [[[100,2],[50]],[]] 1, aten::mm [[4,8],[8,16]] 1", "the file ends in the middle"},
	} {
		all, err := ReadFrom(strings.NewReader(c.text), "torch_et_3.json", Options{Top: 10})
		if err != nil || len(all) != 1 {
			t.Fatalf("%d results, %v", len(all), err)
		}

		r := all[0]
		var got []string
		for _, o := range r.Operators {
			got = append(got, fmt.Sprint(o.Name, " ", string(o.Shapes), " ", o.Count))
		}
		if text := strings.Join(got, ", "); text != c.want || *r.Rank != 3 || r.Error != noTimes ||
			!strings.Contains(r.Warning, c.warning) {
			t.Errorf("rank %v, %q, %q: %s, want %s", r.Rank, r.Error, r.Warning, text, c.want)
		}
	}
}

// Operators are added to the result of their rank.
func TestJoin(t *testing.T) {
	t.Parallel()
	at := func(n int) *int { return &n }
	of := func(rank *int, name string) *Analysis {
		r := &Analysis{Meta: Meta{Rank: rank}}
		if name != "" {
			r.Operators = []Operator{{Name: name}}
		}
		return r
	}
	for _, c := range []struct {
		name string
		in   []*Analysis
		want string
	}{
		{"two ranks", []*Analysis{of(at(1), "b"), of(at(0), ""), of(at(1), ""), of(at(0), "a")}, "a b"},
		{"one without a rank", []*Analysis{of(nil, ""), of(at(0), "a")}, "a"},
		{"another rank", []*Analysis{of(at(1), ""), of(at(0), "a")}, "- a"},
		{"alone", []*Analysis{of(at(0), "a")}, "a"},
		{"an empty one", []*Analysis{of(at(0), ""), {Meta: Meta{Rank: at(0)}, Operators: []Operator{}}}, "-"},
	} {
		var got []string
		for _, r := range Join(c.in) {
			name := "-"
			for _, o := range r.Operators {
				name = o.Name
			}
			got = append(got, name)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}
