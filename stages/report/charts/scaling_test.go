package charts

import (
	"strings"
	"testing"

	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
)

// TestScalingChart draws cells of an experiment as their export does, and nothing without several sizes.
func TestScalingChart(t *testing.T) {
	t.Parallel()
	build := func(sizes ...int64) *model.Table {
		b := table.NewBuilder()
		f := &model.Facets{Rows: len(sizes), Params: []model.Param{{Name: "tensor_parallel_size", Numeric: true}}}
		clock := model.Measured{Column: catalog.Column{Name: "iteration_wall_clock"}}
		for i, size := range sizes {
			seconds := 3 / float64(size)
			if err := b.Append(map[string]any{"experiment_id": string(rune('A' + i)), "tensor_parallel_size": size,
				"throughput_tokens_sec": 100 / seconds, "iteration_wall_clock": seconds}); err != nil {
				t.Fatal(err)
			}
			f.Params[0].Value = append(f.Params[0].Value, float64(size))
			f.Latency, clock.Values = append(f.Latency, 100/seconds), append(clock.Values, seconds)
		}
		f.Metrics = []model.Measured{clock}
		return &model.Table{Facets: f, Data: &stage.Dataset{Table: b.Record()}}
	}

	c := scaling("x", build(1, 2, 4))
	if c == nil || !strings.HasPrefix(c.Body, "<svg") || !strings.Contains(c.Body, "Scaling efficiency") ||
		!strings.Contains(c.Body, ">C</text>") {
		t.Errorf("%+v", c)
	}
	if c := scaling("x", build(2, 2)); c != nil {
		t.Error("a chart of one size")
	}
}
