package gate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/gate/results"
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
	judge := func(measured, predicted *stage.Dataset) finding {
		c := &prediction{Columns: []string{"ttft"}, P50: 0.05, P95: 0.15,
			References: References{refs: []*stage.Ref{{Address: "collect.predicted"}}}}
		s := &subject{ds: measured, rec: measured.Table, others: []*stage.Dataset{predicted}}
		return c.run(s)
	}

	measured := workloads(t, 10.0, 20.0, 40.0, 80.0)
	if v := judge(measured, workloads(t, 10.1, 19.0, 41.0, 84.0)); !v.ok || !strings.Contains(v.message, "of 4") {
		t.Errorf("near: %+v", v)
	}

	if v := judge(measured, workloads(t, 10.1, 19.0, 41.0, 120.0)); v.ok || len(v.rows) == 0 ||
		!strings.Contains(v.rows[0], "measured 80, predicted 120, +50.0 %") {
		t.Errorf("one is far off: %+v", v)
	}

	if v := judge(measured, workloads(t, 8.0, 16.0, 32.0, 64.0)); v.ok ||
		!strings.Contains(v.message, "median of predicted / measured 0.800") {
		t.Errorf("all too low: %+v", v)
	}

	if v := judge(measured, workloads(t, 10.0, nil, 40.0, 80.0)); v.left.count() != 1 {
		t.Errorf("what was not predicted is not judged: %+v", v)
	}

	if v := judge(measured, workloads(t, nil, nil, nil, nil)); v.ok {
		t.Errorf("nothing to compare does not pass: %+v", v)
	}
}

// rowsOf makes a dataset; columns that a row lacks are null, and a column that all
// rows lack has no type.
func rowsOf(t *testing.T, fields []arrow.Field, rows ...map[string]any) *stage.Dataset {
	t.Helper()
	b := table.NewBuilder(fields...)
	for _, row := range rows {
		if err := b.Append(row); err != nil {
			t.Fatal(err)
		}
	}

	return &stage.Dataset{Table: b.Record(), Info: stage.Info{Params: []string{"isl"}}}
}

func TestPredictionOfWhatCannotBeCompared(t *testing.T) {
	isl, ttft, tpot := table.Field("isl", table.Int64), table.Field("ttft", table.Float64),
		table.Field("tpot", table.Float64)
	both := []arrow.Field{isl, ttft, tpot}
	good := []map[string]any{{"isl": int64(1), "ttft": 10.0, "tpot": 5.0},
		{"isl": int64(2), "ttft": 20.0, "tpot": 5.0}, {"isl": int64(3), "ttft": 30.0, "tpot": 5.0}}
	with := func(row int, more map[string]any) []map[string]any {
		out := slices.Clone(good)
		out[row] = maps.Clone(out[row])
		maps.Copy(out[row], more)
		return out
	}

	digest, failing := table.Field("tables_digest", table.String), table.Field("error_rate", table.Float64)
	for _, x := range []struct {
		name                string
		measured, predicted *stage.Dataset
		min                 float64 // share that must be judged
		result, message     string
	}{
		{"all is well", rowsOf(t, both, good...), rowsOf(t, both, good...), 1, "pass", "ttft: p50 0.00 %"},
		{"nothing of one", rowsOf(t, both, good...), rowsOf(t, both, good[:2]...), 1, "fail",
			"1 of 3 could not be judged: it was not predicted"},
		{"nothing of one, and that is accepted", rowsOf(t, both, good...), rowsOf(t, both, good[:2]...), 0.5, "pass",
			"1 of 3 could not be judged"},
		{"one was not measured", rowsOf(t, both, good[:2]...), rowsOf(t, both, good...), 1, "pass",
			"1 workload predicted and not measured"},
		// A row that lacks both columns is one row.
		{"NaN", rowsOf(t, both, with(1, map[string]any{"ttft": math.NaN(), "tpot": math.NaN()})...),
			rowsOf(t, both, good...), 0.6, "pass", "1 of 3 could not be judged: ttft is NaN"},
		{"zero measured", rowsOf(t, both, with(1, map[string]any{"ttft": 0.0})...), rowsOf(t, both, good...), 1,
			"fail", "1 of 3 could not be judged: ttft is zero"},
		{"zero predicted", rowsOf(t, both, good...), rowsOf(t, both, with(0, map[string]any{"tpot": 0.0})...), 1,
			"fail", "predicted tpot is zero"},
		{"infinite", rowsOf(t, both, good...), rowsOf(t, both, with(0, map[string]any{"tpot": math.Inf(1)})...), 1,
			"fail", "predicted tpot is infinite"},
		{"a column of nulls", rowsOf(t, both, good...),
			rowsOf(t, both, map[string]any{"isl": int64(1), "ttft": 10.0}, map[string]any{"isl": int64(2), "ttft": 20.0},
				map[string]any{"isl": int64(3), "ttft": 30.0}), 1, "fail", "predicted tpot is null"},
		{"no such column", rowsOf(t, both, good...),
			rowsOf(t, []arrow.Field{isl, ttft}, map[string]any{"isl": int64(1), "ttft": 10.0}), 1, "fail", "no column \"tpot\""},
		{"seconds", rowsOf(t, both, good...), rowsOf(t, both,
			map[string]any{"isl": int64(1), "ttft": 0.01, "tpot": 0.005},
			map[string]any{"isl": int64(2), "ttft": 0.02, "tpot": 0.005},
			map[string]any{"isl": int64(3), "ttft": 0.03, "tpot": 0.005}), 1, "fail", "are both in the same unit?"},
		{"two trees", rowsOf(t, both, good...),
			rowsOf(t, append(slices.Clone(both), digest), with(0, map[string]any{"tables_digest": "sha256:a"})...), 1,
			"fail", "predicts from 2 different tables: tables_digest=; tables_digest=sha256:a"},
		{"requests failed", rowsOf(t, append(slices.Clone(both), failing),
			with(2, map[string]any{"error_rate": 0.5})...), rowsOf(t, both, good...), 1, "fail",
			"1 of 3 could not be judged: some of its requests failed"},
		{"all requests failed", rowsOf(t, append(slices.Clone(both), failing),
			map[string]any{"isl": int64(1), "error_rate": 1.0}), rowsOf(t, both, good...), 1, "fail",
			"none of 1 could be judged: some of its requests failed"},
		{"a rate of errors that is text", rowsOf(t, append(slices.Clone(both), table.Field("error_rate", table.String)),
			with(2, map[string]any{"error_rate": "0.5"})...), rowsOf(t, both, good...), 1, "fail",
			"none of 3 could be judged: column \"error_rate\" is string, not float64"},
		{"text for a number", rowsOf(t, []arrow.Field{table.Field("isl", table.String), ttft, tpot},
			map[string]any{"isl": "1", "ttft": 10.0, "tpot": 5.0}), rowsOf(t, both, good...), 1, "fail",
			"isl identifies workloads and is text in the data and a number in collect.predicted"},
		{"a fraction for a whole number", rowsOf(t, []arrow.Field{table.Field("isl", table.Float64), ttft, tpot},
			map[string]any{"isl": 1.0, "ttft": 10.0, "tpot": 5.0}), rowsOf(t, both, good...), 1, "pass", "of 1"},
		{"other workloads", rowsOf(t, both, map[string]any{"isl": int64(7), "ttft": 10.0, "tpot": 5.0}),
			rowsOf(t, both, good...), 1, "fail", "the data has isl=7, and what was predicted isl=1"},
		{"twice", rowsOf(t, both, good...), rowsOf(t, both, append(slices.Clone(good), good[0])...), 1, "fail",
			"two predictions for isl=1"},
		{"no rows", rowsOf(t, both), rowsOf(t, both, good...), 1, "fail", "no workload is both measured and predicted"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := &prediction{Columns: []string{"ttft", "tpot"}, P50: 0.05, P95: 0.15, Key: []string{"isl"},
				References: References{refs: []*stage.Ref{{Address: "collect.predicted"}}}}
			e := entry{name: "prediction", kind: "prediction", severity: SeverityFail, minJudged: x.min, check: c}
			s := &subject{ds: x.measured, rec: x.measured.Table, others: []*stage.Dataset{x.predicted}}
			got := e.settle(s, c.run(s))
			if got.Result != x.result || !strings.Contains(got.Message, x.message) {
				t.Errorf("%s: %s\nwant %s: %s", got.Result, got.Message, x.result, x.message)
			}

			if got.Extent.Judged < 0 || got.Extent.Judged > got.Extent.Total {
				t.Errorf("judged %d of %d", got.Extent.Judged, got.Extent.Total)
			}

			if p, ok := results.PredictionOf(got); ok && len(p.Tables[1].Rows) != int(x.measured.Table.NumRows()) {
				t.Errorf("the detail has %d workloads", len(p.Tables[1].Rows))
			}
		})
	}
}

// TestPredictionBesideTheServersQueue checks that the server's queue is shown and changes no verdict, and
// that rows without it, or with more queue than ttft, are left out.
func TestPredictionBesideTheServersQueue(t *testing.T) {
	t.Parallel()
	fields := []arrow.Field{table.Field("isl", table.Int64), table.Field("ttft", table.Float64)}
	row := func(isl int64, ttft float64, more map[string]any) map[string]any {
		out := map[string]any{"isl": isl, "ttft": ttft}
		maps.Copy(out, more)
		return out
	}

	predicted := rowsOf(t, fields, row(1, 10, nil), row(2, 22, nil), row(3, 30, nil), row(4, 40, nil), row(5, 50, nil))
	measured := rowsOf(t, append(fields, table.Field("server_queue", table.Float64),
		table.Field("server_prefill", table.Float64)),
		row(1, 10, map[string]any{"server_queue": 0.0, "server_prefill": 9.0}),
		row(2, 100, map[string]any{"server_queue": 80.0, "server_prefill": 19.0}),
		row(3, 100, map[string]any{"server_queue": 60.0}),
		row(4, 100, nil),
		row(5, 100, map[string]any{"server_queue": 101.0}),
	)

	c := &prediction{Columns: []string{"ttft"}, P50: 0.05, P95: 0.15,
		References: References{refs: []*stage.Ref{{Address: "collect.predicted"}}}}
	s := &subject{ds: measured, rec: measured.Table, others: []*stage.Dataset{predicted}}

	v := c.run(s)

	// Without their queues 10, 20 and 40 ms were measured: errors of 0, 10 and 25 %.
	want := "by the server's metrics 60.00 % of ttft is its queue (median of 3), and ttft without it: p50 10.00 %, p95 " +
		"23.50 % (not judged)"
	if v.ok || !strings.Contains(v.message, want) {
		t.Errorf("got %t %s", v.ok, v.message)
	}

	got := fmt.Sprint(v.detail.(*results.Prediction).Tables[1].Rows)
	if want := "[[1 10 10 0 0 9] [2 100 22 -78 80 19] [3 100 30 -70 60 <nil>] [4 100 40 -60 <nil> <nil>] " +
		"[5 100 50 -50 101 <nil>]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	if v := c.run(&subject{ds: predicted, rec: predicted.Table,
		others: []*stage.Dataset{predicted}}); strings.Contains(v.message, "queue") {
		t.Errorf("a server without a queue: %s", v.message)
	}
}

// TestPredictionByOp divides the error of a static step by its traces.
func TestPredictionByOp(t *testing.T) {
	kernel := func(name string, ts, dur int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":7,"ts":%d,"dur":%d,"args":{"device":0}}`,
			name, ts, dur)
	}

	mark := func(name string, ts, dur int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"gpu_user_annotation","name":%q,"pid":0,"tid":7,"ts":%d,"dur":%d}`, name, ts, dur)
	}

	prefill := []string{mark("execute_context_1(8)_generation_0(0)", 0, 9000), kernel("nvjet", 0, 6000),
		mark("execute_context_1(8)_generation_0(0)", 9000, 900), kernel("flash_fwd", 9000, 800),
		kernel("flash_fwd", 8000, 1200)}
	decode := append(slices.Clone(prefill), mark("execute_context_0(0)_generation_1(1)", 10000, 4000),
		kernel("nvjet", 10000, 3000), kernel("rms_norm", 13000, 500),
		mark("execute_context_0(0)_generation_1(1)", 20000, 4000), kernel("nvjet", 20000, 3000),
		kernel("rms_norm", 23000, 500))
	objects := map[string][]byte{
		"p": []byte(`{"traceEvents":[` + strings.Join(prefill, ",") + `]}`),
		"d": []byte(`{"traceEvents":[` + strings.Join(decode, ",") + `]}`),
		"x": []byte("no trace"),
	}

	isl, osl, text := table.Field("isl", table.Int64), table.Field("osl", table.Int64), table.String
	measured := rowsOf(t, []arrow.Field{isl, osl, table.Field("ttft", table.Float64),
		table.Field("tpot", table.Float64), table.Field("gpu_sm_clock_mhz", table.Float64)},
		map[string]any{"isl": int64(8), "osl": int64(3), "ttft": 10.0, "tpot": 4.0, "gpu_sm_clock_mhz": 1500.0},
		map[string]any{"isl": int64(9), "osl": int64(3), "ttft": 10.0, "tpot": 4.0})

	ops := `{"context":{"context_qkv_gemm":7,"context_attention":1.5,"context_add_norm_1":0.5,"context_ar_1":0},"generation":{"generation_qkv_gemm":6,"generation_add_norm_1":1}}`
	predicted := rowsOf(t, []arrow.Field{isl, osl, table.Field("ttft", table.Float64),
		table.Field("tpot", table.Float64), table.Field("per_ops", text), table.Field("per_ops_source", text)},
		map[string]any{"isl": int64(8), "osl": int64(3), "ttft": 9.0, "tpot": 3.5, "per_ops": ops,
			"per_ops_source": `{"context":{"context_qkv_gemm":"silicon"}}`},
		map[string]any{"isl": int64(9), "osl": int64(3), "ttft": 9.0, "tpot": 3.5, "per_ops": "no JSON"})

	traces := func(p, d string) *stage.Dataset {
		return rowsOf(t, []arrow.Field{isl, table.Field("attachments", text)},
			map[string]any{"isl": int64(8), "attachments": fmt.Sprintf(
				`[{"name":"prefill_trace_0.json","digest":%q},{"name":"decode_trace_0.json","digest":%q},{"name":"server.log","digest":"none"}]`, p, d)})
	}

	judge := func(traces *stage.Dataset) *results.Prediction {
		c := &prediction{Columns: []string{"ttft", "tpot"}, P50: 0.05, P95: 0.15, Key: []string{"isl", "osl"},
			References: References{refs: []*stage.Ref{{Address: "collect.predicted"}, {Address: "collect.traces"}}}}
		s := &subject{ds: measured, rec: measured.Table, others: []*stage.Dataset{predicted, traces},
			object: func(digest string) ([]byte, error) {
				if b, ok := objects[digest]; ok {
					return b, nil
				}
				return nil, errors.New("it is gone")
			}}

		got := entry{name: "prediction", kind: "prediction", severity: SeverityFail, minJudged: 1, check: c}.settle(s,
			c.run(s))
		p, ok := results.PredictionOf(got)
		if !ok {
			t.Fatalf("no detail: %+v", got)
		}

		return p
	}

	show := func(p *results.Prediction) string {
		var b strings.Builder
		for _, x := range p.Parts {
			fmt.Fprintln(&b, x.Title, x.Note, x.Rows)
		}
		return b.String()
	}

	p := judge(traces("p", "d"))
	want := "isl 8, prefill  [[gemm silicon 7 6 -1] [attention 1.5 2 0.5] [other 0.5 <nil> <nil>] " +
		"[no kernel: launches, host, scheduler <nil> 2 2] [in all 9 10 1]]\n" +
		"isl 8, decode  [[gemm 3 3 0] [other 0.5 0.5 0] [no kernel: launches, host, scheduler <nil> 0.5 0.5] " +
		"[in all 3.5 4 0.5]]\n"
	if got := show(p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}

	workloads := p.Tables[1].Rows
	if p.Traces != "collect.traces" || workloads[0][7] != 1500.0 || workloads[1][7] != nil {
		t.Errorf("got %+v", p)
	}

	for name, x := range map[string]struct {
		p, d,
		why string
	}{"gone": {"p", "?", "decode_trace_0.json cannot be read: it is gone"},
		"broken": {"x", "d", "prefill_trace_0.json cannot be read"}} {
		if got := show(judge(traces(x.p, x.d))); !strings.Contains(got, x.why) ||
			strings.Contains(got, "no kernel") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
