package gate

import (
	"strings"
	"testing"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// workloads makes a dataset of workloads with their ttft.
func workloads(t *testing.T, ttft ...any) *stage.Dataset {
	t.Helper()
	b := table.NewBuilder(table.Field("isl", table.Int64), table.Field("ttft", table.Float64))
	for i, v := range ttft {
		if err := b.Append(map[string]any{"isl": int64(256 * (i + 1)), "ttft": v}); err != nil {
			t.Fatal(err)
		}
	}
	return &stage.Dataset{Table: b.Record(), Info: stage.Info{Params: []string{"isl"}}}
}

func TestPrediction(t *testing.T) {
	judge := func(measured, predicted *stage.Dataset, min int) finding {
		c := &prediction{Columns: []string{"ttft"}, P50: 0.05, P95: 0.15, Min: min, ref: &stage.Ref{Address: "collect.predicted"}}
		s := &subject{ds: measured, rec: measured.Table, reference: predicted}
		if err := s.restrict(nil); err != nil {
			t.Fatal(err)
		}
		return c.run(s)
	}
	measured := workloads(t, 10.0, 20.0, 40.0, 80.0)
	if v := judge(measured, workloads(t, 10.1, 19.0, 41.0, 84.0), 1); !v.ok || !strings.Contains(v.message, "of 4") {
		t.Errorf("near: %+v", v)
	}
	if v := judge(measured, workloads(t, 10.1, 19.0, 41.0, 120.0), 1); v.ok || len(v.rows) == 0 || !strings.Contains(v.rows[0], "measured 80, predicted 120, +50.0 %") {
		t.Errorf("one is far off: %+v", v)
	}
	if v := judge(measured, workloads(t, 8.0, 16.0, 32.0, 64.0), 1); v.ok || !strings.Contains(v.message, "median of predicted / measured 0.800") {
		t.Errorf("all too low: %+v", v)
	}
	if v := judge(measured, workloads(t, 10.0, nil, 40.0, 80.0), 1); v.left.count() != 1 {
		t.Errorf("what was not predicted is not judged: %+v", v)
	}
	if v := judge(measured, workloads(t, nil, nil, nil, nil), 1); v.ok {
		t.Errorf("nothing to compare does not pass: %+v", v)
	}
	if v := judge(measured, workloads(t, 10.0), 2); v.ok || !strings.Contains(v.message, "at least 2 are needed") {
		t.Errorf("too few: %+v", v)
	}
}
