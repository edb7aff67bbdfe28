package trace

import (
	"os"
	"path/filepath"
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
	const before = `{"schema": "1.0.1", "pid": 3, "nodes": [{"name": "aten::add", "inputs": [[5, 6, 0], 1], "input_shapes": [[3], []], "input_types": ["Tensor(float)", "Int"]}]}`
	for _, c := range []struct{ name, text, want, err string }{
		{"torch_et_3.json", now, "aten::cat [[[100,2],[50]],[]] 1, aten::mm [[4,8],[8,16]] 2", ""},
		{"torch_et_3.json", before, "aten::add [[3],[]] 1", ""},
		{"torch_et_3.json", now[:len(now)-60], "", "torch_et_3.json: byte"},
		{"torch_et_3.json", `{"schema": "1.0.1", "nodes": 3}`, "", "nodes is not a list"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if !IsExecutionTrace(path) {
			t.Errorf("%s is not recognised", c.text)
		}

		o, err := ReadOperators(path, 10)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %s", err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range o.List {
			got = append(got, strings.Join([]string{x.Name, string(x.Shapes), string(rune('0' + x.Count))}, " "))
		}
		if text := strings.Join(got, ", "); text != c.want || *o.Rank != 3 {
			t.Errorf("rank %v: %s, want %s", o.Rank, text, c.want)
		}
	}
}
