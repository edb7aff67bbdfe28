package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/trace"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// phasesOf writes phases in one line each.
func phasesOf(phases []phase) string {
	var b strings.Builder
	for _, p := range phases {
		b.WriteString(p.name)
		for _, class := range classes {
			for i, by := range []map[string]float64{p.predicted, p.kernels} {
				if v, ok := by[class]; ok {
					fmt.Fprintf(&b, ", %s %s %s", []string{"predicted", "measured"}[i], class, number(v))
				}
			}
		}
		b.WriteString("\n")
	}

	return b.String()
}

// TestPredictedPhases: the parts of models and modes that differ from a dense model
// on one server.
func TestPredictedPhases(t *testing.T) {
	t.Parallel()

	for _, x := range []struct{ name, ops, want string }{
		{"experts are products", `{"context":{"context_full_moe":4,"context_router_gemm":1,"context_moe_pre_dispatch":2,"context_attention":3}}`,
			"prefill, predicted gemm 5, predicted attention 3, predicted communication 2\n"},
		{"experts beside others", `{"generation":{"generation_moe_overlap":4}}`, "decode, predicted gemm 2\n"},
		{"an all-reduce of hybrid models", `{"context":{"context_tp_allreduce":2,"context_mamba_ssm":1}}`,
			"prefill, predicted communication 2, predicted other 1\n"},
		{"latent attention with its products",
			`{"context":{"context_mla_block":4,"context_shared_gate_up_gemm":1,"context_add_norm_1":1}}`,
			"prefill, predicted gemm and attention 5, predicted other 1\n"},
		{"workers of one phase each", `{"prefill":{"context_qkv_gemm":4},"decode":{"generation_qkv_gemm":6}}`,
			"prefill, predicted gemm 4\ndecode, predicted gemm 3\n"},
		{"images", `{"encoder":{"encoder_attention":2,"encoder_qkv_gemm":1},"context":{"context_qkv_gemm":4}}`,
			"prefill, predicted gemm 5, predicted attention 2\n"},
	} {
		ds := rowsOf(t, []arrow.Field{table.Field("osl", table.Int64), table.Field("per_ops", table.String)},
			map[string]any{"osl": int64(3), "per_ops": x.ops})
		if got := phasesOf(predictedPhases(ds.Table, 0)); got != x.want {
			t.Errorf("%s: got %swant %s", x.name, got, x.want)
		}
	}
}

// TestPhasesOfBlocks: where a prediction has an op that is attention and products,
// what was traced of both is one class too.
func TestPhasesOfBlocks(t *testing.T) {
	t.Parallel()
	measured := rowsOf(t, []arrow.Field{table.Field("isl", table.Int64)}, map[string]any{"isl": int64(8)})
	traced := &tracedRows{
		data: measured, rows: []int{0}, why: map[int]string{},
		read: map[int]map[string]map[string]float64{0: {trace.Prefill: {trace.ClassAttention: 3, trace.ClassGEMM: 4,
			trace.ClassOther: 2}}},
	}

	phases := []phase{predictedPhase(trace.Prefill, map[string]float64{"context_mla_block": 6}, nil, 1)}
	traced.measure(&subject{rec: measured.Table}, 0, phases)
	want := "prefill, predicted gemm and attention 6, measured gemm and attention 7, measured other 2\n"

	// A class that the prediction has none of stays beside it.
	got := phasesOf(phases)
	got = strings.ReplaceAll(got, ", predicted other 0", "")
	if got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

// TestPredictionWithWarnings checks that warnings of the package are shown and change no verdict.
func TestPredictionWithWarnings(t *testing.T) {
	t.Parallel()
	fields := []arrow.Field{table.Field("isl", table.Int64), table.Field("ttft", table.Float64),
		table.Field("warning", table.String)}
	rows := rowsOf(t, fields, map[string]any{"isl": int64(1), "ttft": 1.0},
		map[string]any{"isl": int64(2), "ttft": 2.0, "warning": "it does not fit"})
	c := &prediction{Columns: []string{"ttft"}, P50: 0.05, P95: 0.15, Key: []string{"isl"},
		References: References{refs: []*stage.Ref{{Address: "collect.predicted"}}}}
	v := c.run(&subject{ds: rows, rec: rows.Table, others: []*stage.Dataset{rows}})
	if !v.ok || !strings.Contains(v.message, "; 1 prediction with a warning: it does not fit") {
		t.Errorf("got %t %s", v.ok, v.message)
	}
}

// TestTracesThatLackSomething: kernels of a trace that ends in the middle, or of some of
// the ranks, are no sum of a phase.
func TestTracesThatLackSomething(t *testing.T) {
	t.Parallel()
	const step = `{"ph":"X","cat":"gpu_user_annotation","name":"%s","ts":%d,"dur":100,"args":{"device":0}},` +
		`{"ph":"X","cat":"kernel","name":"nvjet_gemm","ts":%d,"dur":80,"args":{"device":0}},` +
		`{"ph":"X","cat":"kernel","name":"flash_fwd","ts":%d,"dur":10,"args":{"device":0}}`

	at := func(name string, ts int) string { return fmt.Sprintf(step, name, ts, ts+1, ts+85) }
	prefill := `{"traceEvents":[` + at("execute_context_1(8)_generation_0(0)", 1000) + `]}`
	decode := `{"traceEvents":[` + at("execute_context_0(0)_generation_1(1)", 2000) + "," +
		at("execute_context_0(0)_generation_1(1)", 3000) + `]}`
	untimed := strings.Replace(prefill, `"dur":10,`, `"dur":-10,`, 1)
	damaged := strings.Replace(prefill, `"name":"flash_fwd",`, `"name":"flash_fwd" `, 1)

	const both = "prefill, measured gemm 0.08, measured attention 0.01\n"
	for _, x := range []struct {
		name, trace0, trace1, want, why string
	}{
		{"whole", prefill, prefill, both, ""},
		{"cut off", prefill, prefill[:len(prefill)-60], "", "prefill_trace_1.json is not whole: the file ends in the middle"},
		{"cut off behind the last kernel", prefill[:len(prefill)-2], prefill, "", "prefill_trace_0.json is not whole"},
		{"a kernel without a time", prefill, untimed, "",
			"prefill_trace_1.json is not whole: left out: 1 kernel without a usable time"},
		{"a damaged kernel", damaged, prefill, "",
			"prefill_trace_0.json is not whole: left out: 1 event that cannot be read"},
		{"of another phase", prefill, decode, "", "prefill_trace_1.json has no such steps, and traces of other ranks have"},
		{"without kernels", `{"traceEvents":[]}`, `{"traceEvents":[]}`, "",
			"prefill_trace_0.json: no kernel of a device is in it"},
		{"without steps", decode, decode, "", "its traces do not mark which steps are prefill and which decode"},
	} {
		text := `[{"name":"prefill_trace_0.json","digest":"0"},{"name":"prefill_trace_1.json","digest":"1"}]`
		rows := rowsOf(t, []arrow.Field{table.Field("isl", table.Int64),
			table.Field(stage.AttachmentsColumn, table.String)}, map[string]any{"isl": int64(8), stage.AttachmentsColumn: text})
		s := &subject{rec: rows.Table, object: func(digest string) ([]byte, error) {
			return []byte(map[string]string{"0": x.trace0, "1": x.trace1}[digest]), nil
		}}

		got, why := (&tracedRows{data: rows}).kernels(s, 0)
		var phases []phase
		for name, by := range got {
			phases = append(phases, phase{name: name, kernels: by})
		}

		if phasesOf(phases) != x.want || !strings.HasPrefix(why, x.why) || (why == "") != (x.why == "") {
			t.Errorf("%s: got %s%q\nwant %s%q", x.name, phasesOf(phases), why, x.want, x.why)
		}
	}
}
