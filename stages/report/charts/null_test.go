package charts

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
)

// drawn are the charts of a table of matrix products.
func drawn(t *testing.T, params []string, names []string, columns ...arrow.Array) map[string]*Chart {
	t.Helper()
	rec := table.NewRecord(names, columns)
	ds := &stage.Dataset{Table: rec, Planned: rec, Info: stage.Info{Op: "x", Params: params}}
	r, err := model.Build(model.Input{Tables: []model.TableInput{{Address: "gate.g", Data: ds}}})
	if err != nil {
		t.Fatal(err)
	}
	return byID(Draw(r))
}

func numbered(n int) arrow.Array {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	return table.Texts(ids, nil)
}

// TestCoverageOfCasesWithoutAValue: they are no cases of 0.
func TestCoverageOfCasesWithoutAValue(t *testing.T) {
	t.Parallel()
	c := drawn(t, []string{"dtype", "m"}, []string{"case_id", "dtype", "m", "latency"}, numbered(4),
		table.Texts([]string{"a", "b", "", "a"}, []bool{true, true, false, true}),
		table.Ints([]int64{0, 8, 0, 8}, []bool{true, true, false, true}), table.Constant(1.0, 4))["t0-cover"]
	if c == nil {
		t.Fatal("no coverage")
	}

	d := c.Data.(coverData)
	if !slices.Equal(d.Xs, []string{"0", "8", "null"}) || !slices.Equal(d.Ys, []string{"a", "b", "null"}) {
		t.Fatalf("columns %q, rows %q", d.Xs, d.Ys)
	}

	for at, n := range d.N {
		want := slices.Contains([]int{0, 1, 4, 8}, at)
		if (n[0] == 1) != want {
			t.Errorf("cell %d has %v", at, n)
		}
	}
}

// TestParameterThatNoRowHas: a column of numbers without a number, and a single row.
func TestParameterThatNoRowHas(t *testing.T) {
	t.Parallel()

	for _, rows := range []int{1, 3} {
		none := make([]bool, rows)
		all := drawn(t, []string{"m", "n"}, []string{"case_id", "m", "n", "latency"}, numbered(rows),
			table.Ints(make([]int64, rows), none), table.Ints(slices.Repeat([]int64{4}, rows), nil), table.Constant(1.0, rows))
		if all["t0-latency"] == nil {
			t.Errorf("%d rows are not drawn", rows)
		}
	}
}

func TestCapital(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "latency": "Latency", "µs": "Μs", "éa": "Éa"} {
		if got := Capital(in); got != want {
			t.Errorf("Capital(%q) = %q", in, got)
		}
	}
}
