package model

import (
	"math"
	"testing"
)

// TestSweptColumn checks that the column that varies is the axis, and that constants are not.
func TestSweptColumn(t *testing.T) {
	t.Parallel()
	f := &Facets{Rows: 3, Params: []Param{
		{Name: "isl", Numeric: true, Value: []float64{100, 100, 100}},
		{Name: "concurrency", Numeric: true, Value: []float64{1, 4, 8}},
	}}
	if p := f.Swept(); p == nil || p.Name != "concurrency" {
		t.Errorf("swept: %+v", p)
	}

	f.Params = f.Params[:1]
	if p := f.Swept(); p != nil {
		t.Errorf("nothing varies, and the axis is %s", p.Name)
	}
}

// TestEfficiency compares rows with the row of fewest GPUs that is otherwise equal.
func TestEfficiency(t *testing.T) {
	t.Parallel()
	f := &Facets{Rows: 4, Latency: []float64{10, 18, 20, 30}, Params: []Param{
		{Name: "experiment_id", Text: []string{"E1", "E2", "E3", "E4"}},
		{Name: "tensor_parallel_size", Numeric: true, Value: []float64{1, 2, 1, 2}},
		{Name: "concurrency", Numeric: true, Value: []float64{1, 1, 4, 4}},
	}}
	efficiency := f.Efficiency()
	for i, want := range []float64{1, 0.9, 1, 0.75} {
		if math.Abs(efficiency[i]-want) > 1e-12 {
			t.Errorf("row %d: efficiency %v, want %v", i, efficiency[i], want)
		}
	}
}
