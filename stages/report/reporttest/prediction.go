package reporttest

import (
	"encoding/json"
	"testing"

	"aicplan/engine/stage"
	"aicplan/stages/gate/results"
	"aicplan/stages/report/model"
)

// Predicted is a made-up gate that compared predictions with static steps: four
// workloads, one of them traced, one not predicted, one whose prediction
// has no parts.
func Predicted() (stage.Finished, error) {
	at := func(v float64) *float64 { return &v }
	detail := results.Prediction{
		Kind: "prediction", Predicted: "module.ours.collect.predicted",
		Tables: []string{"tables_version=0.24.0 tables_digest=sha256:1f2e"}, Traces: "collect.traces",
		Key: []string{"tensor_parallel_size", "isl", "concurrency"},
		Columns: []results.PredictionColumn{
			{Name: "ttft", Compared: 3, P50: 0.12, P95: 0.21, Median: 0.88, LimitP50: 0.03, LimitP95: 0.08},
			{Name: "tpot", Compared: 3, P50: 0.02, P95: 0.06, Median: 0.98, LimitP50: 0.03, LimitP95: 0.08},
		},
		Warned: 1, Warning: "the batch does not fit <once>", More: 2,
		Queue: &results.QueueCompare{Compared: 1, Share: 0.125, P50: 0.042, P95: 0.042},
		Workloads: []results.Workload{
			{
				Key: []string{"1", "1024", "8"}, ClockMHz: at(1512.4), PowerW: at(688.2), QueueMs: at(26.3), PrefillMs: at(181),
				Values: []results.Compared{{Column: "ttft", Measured: at(210), Predicted: at(176)},
					{Column: "tpot", Measured: at(5.31), Predicted: at(5.07)}},
				Phases: []results.PhaseCompare{
					{Name: "prefill", Predicted: at(176), Measured: at(210), Kernels: at(201), Gap: at(9), Parts: []results.ClassPart{
						{Class: "gemm", Predicted: at(157.8), Measured: at(186), Source: "silicon"},
						{Class: "attention", Predicted: at(7.6), Measured: at(7.9), Source: "mixed"},
						{Class: "other", Predicted: at(10.6), Measured: at(7.1), Source: "empirical"}}},
					{Name: "decode", Predicted: at(5.07), Measured: at(5.31), Kernels: at(4.9), Gap: at(0.41),
						Parts: []results.ClassPart{
							{Class: "gemm", Predicted: at(4.18), Measured: at(4.1), Source: "silicon"},
							{Class: "attention", Predicted: at(0.59), Measured: at(0.55), Source: "silicon"},
							{Class: "other", Predicted: at(0.3), Measured: at(0.25), Source: "empirical"}}},
				},
			},
			{
				Key: []string{"1", "256", "1"},
				Values: []results.Compared{{Column: "ttft", Measured: at(9.1), Predicted: at(7.45)},
					{Column: "tpot", Measured: at(4.9), Predicted: at(4.83)}},
				Phases: []results.PhaseCompare{{Name: "prefill", Predicted: at(7.45), Why: "no trace of it",
					Parts: []results.ClassPart{{Class: "gemm", Predicted: at(7.45)}}}},
			},
			{Key: []string{"1", "4096", "1"}, Values: []results.Compared{{Column: "ttft", Measured: at(95),
				Predicted: at(92.8)}, {Column: "tpot", Measured: at(4.99), Predicted: at(4.95)}}},
			{Key: []string{"1", "8192", "1"}, Values: []results.Compared{{Column: "ttft", Measured: at(201),
				Why: "not predicted"}, {Column: "tpot", Measured: at(5.04), Why: "not predicted"}}},
		},
	}

	raw, err := json.Marshal(detail)
	if err != nil {
		return stage.Finished{}, err
	}

	return stage.Finished{Address: "gate.steps", Kind: "gate", Class: Class("gate"),
		Outcome: &stage.Outcome{Status: stage.StatusGateFailed, Checks: []stage.CheckResult{
			{Name: "prediction of module.ours.collect.predicted", Severity: "fail", Result: "fail",
				Message: "too far off", Detail: raw},
		}}}, nil
}

// PredictionReport is a report with Predicted among its gates.
func PredictionReport(t *testing.T) *model.Report {
	t.Helper()
	in, err := Input(100)
	if err != nil {
		t.Fatal(err)
	}

	f, err := Predicted()
	if err != nil {
		t.Fatal(err)
	}

	in.Finished = append(in.Finished, f)
	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}

	return r
}
