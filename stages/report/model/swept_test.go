package model

import (
	"fmt"
	"math"
	"testing"

	"aicplan/sink/catalog"
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

// Cells of an experiment have the baseline of its table, whatever else differs, and are drawn over the number of GPUs
// with a series for each kind of parallelism.
func TestCellsOfExperiment(t *testing.T) {
	t.Parallel()
	rate := []float64{100, 180, 150, 300}
	f := &Facets{Rows: 4, Latency: rate, Metrics: []Measured{{catalog.Column{Name: "throughput_tokens_sec"}, rate}},
		Params: []Param{
			{Name: "experiment_id", Text: []string{"E1", "E2", "E3", "E4"}},
			{Name: "tensor_parallel_size", Numeric: true, Value: []float64{1, 2, 1, 4}},
			{Name: "pipeline_parallel_size", Numeric: true, Value: []float64{1, 1, 2, 1}},
			{Name: "gpu_memory_utilization", Numeric: true, Value: []float64{math.NaN(), math.NaN(), 0.5, math.NaN()}},
			{Name: "nccl_algo", Text: []string{"", "Ring", "", ""}},
		}}

	if got := fmt.Sprint(f.Efficiency()); got != "[1 0.9 0.75 0.75]" {
		t.Errorf("efficiency %s", got)
	}
	if p := f.Swept(); p.Name != GPUCount || fmt.Sprint(p.Value) != "[1 2 2 4]" {
		t.Errorf("swept: %+v", p)
	}
	if s := f.Families(); fmt.Sprint(s.Names, s.Code) != "[one GPU TP PP] [0 1 2 1]" {
		t.Errorf("series: %+v", s)
	}
	f.Params[2] = Param{Name: "batch_size", Numeric: true, Value: []float64{4, 4, 8, 8}}
	if s := f.Families(); fmt.Sprint(s.Names, s.Code) != "[TP, batch 4 TP, batch 8] [0 0 1 1]" {
		t.Errorf("series of two loads: %+v", s)
	}
	if cell := f.Params[3].Cell(0) + f.Params[3].Cell(2); cell != "0.5" {
		t.Errorf("null and 0.5 are %q", cell)
	}
}
