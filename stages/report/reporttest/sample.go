// Package reporttest makes up runs for tests of reports: made-up numbers with
// the shape of real ones, of any size, always the same for the same arguments.
package reporttest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
	"aicplan/systems"
)

var began = time.Date(2026, 3, 4, 22, 5, 0, 0, time.UTC)

// Input is a made-up run on an H200: a matrix product of about so many rows, an
// attention with failed and skipped cases whose gate failed, and an imported
// table; the matrix product is compared with a reference.
func Input(rows int) (model.Input, error) {
	spec, err := systems.Load("h200_sxm")
	if err != nil {
		return model.Input{}, err
	}

	gemm, err := Gemm(rows, 1)
	if err != nil {
		return model.Input{}, err
	}

	reference, err := Gemm(rows, 2)
	if err != nil {
		return model.Input{}, err
	}

	reference.Planned, reference.Ledger = nil, nil
	attention, err := Attention()
	if err != nil {
		return model.Input{}, err
	}

	n := int(gemm.Table.NumRows())
	exitCode := 4
	in := model.Input{
		Title: "H200 SXM, TensorRT-LLM 1.3.0rc20",
		Run: model.Run{ID: "20260304T220500.000-ab12", Plan: "plans/h200_trtllm.hcl",
			Started: "2026-03-04T22:05:00Z", Seconds: 9876.5, ExitCode: &exitCode},
		Tables: []model.TableInput{
			{Address: "gate.gemm", Data: gemm, System: spec, Reference: reference, ReferenceName: "vllm 0.19.0"},
			{Address: "dedupe.attention", Data: attention, System: spec},
			{Address: "import.allreduce", Data: allreduce()},
		},
		System: func(string) *systems.Spec { return spec },
	}

	in.Finished = finished(gemm, attention, n)
	return in, nil
}

func finished(gemm, attention *stage.Dataset, rows int) []stage.Finished {
	ok := func(address, kind string, seconds float64, o *stage.Outcome, after ...string) stage.Finished {
		return stage.Finished{Address: address, Kind: kind, Class: Class(kind), Seconds: seconds, Outcome: o, After: after}
	}

	checks := []stage.CheckResult{
		{Name: "coverage", Severity: "fail", Result: "pass", Message: "all planned cases have a row",
			Value: "100.00 %", Limit: "at least 99.00 %", Pos: "plans/h200_trtllm.hcl:80"},
		{Name: "noise p95", Severity: "warn", Result: "warn", Message: "p95 of rel_stdev is 0.031", Value: "0.031",
			Limit: "at most 0.02", Rows: []string{"m=1 n=256 k=256 rel_stdev=0.09"}, Fix: "longer idle gaps"},
		{Name: "speed_of_light", Severity: "fail", Result: "pass", Message: "no row is faster than h200_sxm allows",
			Value: "83.10 %", Limit: "at most 100.00 %"},
	}

	bad := []stage.CheckResult{
		{Name: "coverage", Severity: "fail", Result: "fail", Message: "212 of 240 planned cases have a row (88.33 %)",
			Value: "88.33 %", Limit: "at least 99.00 %", Pos: "plans/h200_trtllm.hcl:101",
			Rows: []string{"batch_size=64 isl=16384 num_heads=64", "batch_size=64 isl=16384 num_heads=32"},
			Fix:  "collect the rest, or exclude the cases by a filter with a reason"},
		{Name: "power", Severity: "fail", Result: "skip", Message: "the data has no column \"power\""},
	}

	w := &stage.Waterfall{Declared: int64(rows) * 3, Cases: rows, Rows: rows,
		Axes: []stage.AxisSize{{Name: "m", Size: 40}, {Name: "n", Size: 30}, {Name: "k", Size: 30}},
		Filters: []stage.FilterCount{
			{Name: "fp8_needs_sm89", Reason: "no FP8 tensor cores below SM89", Dropped: 0},
			{Name: "int32_elements", Reason: "the runtime indexes with 32 bits", Dropped: int64(rows) * 2,
				Samples: []string{"m=65536 n=65536 k=65536"}},
		}}

	grid := ok("grid.gemm", "grid", 0, &stage.Outcome{Status: stage.StatusOK,
		Counts: stage.Counts{Planned: rows, Rows: rows}})
	grid.Waterfall = w
	planned := int(attention.Planned.NumRows())

	return []stage.Finished{
		ok("preflight.node", "preflight", 1.2,
			&stage.Outcome{Status: stage.StatusOK,
				Checks: []stage.CheckResult{{Name: "exclusive", Severity: "fail", Result: "pass",
					Message: "no other process uses the GPUs"}}}),
		grid,
		ok("collect.gemm", "collect", 7200, &stage.Outcome{Status: stage.StatusOK, Data: gemm,
			Counts: stage.Counts{Planned: rows, Measured: rows, Rows: rows}}, "grid.gemm", "preflight.node"),
		ok("gate.gemm", "gate", 0.4, &stage.Outcome{Status: stage.StatusOK, Data: gemm, Checks: checks,
			Counts: stage.Counts{Rows: rows}}, "collect.gemm"),
		ok("export.gemm", "export", 0.6, &stage.Outcome{Status: stage.StatusOK, Counts: stage.Counts{Rows: rows},
			Artifacts: []stage.Artifact{{Path: "/data/out/h200_sxm/trtllm/1.3.0rc20/gemm_perf.txt", Rows: rows,
				Digest: "sha256:0f343b0931126a20f133d67c2b018a3b5ae8a1c4b2f6b0a4d5d1cb0d64a2f7c1"}}}, "gate.gemm"),
		ok("collect.attention", "collect", 2400,
			&stage.Outcome{Status: stage.StatusPartial, Message: "21 cases failed", Data: attention,
				Counts: stage.Counts{Planned: planned, Measured: planned - 28, Failed: 21, Skipped: 7}}, "preflight.node"),
		ok("dedupe.attention", "dedupe", 0.1, &stage.Outcome{Status: stage.StatusOK, Data: attention,
			Counts: stage.Counts{Rows: planned - 28}}, "collect.attention"),
		ok("gate.attention", "gate", 0.1, &stage.Outcome{Status: stage.StatusGateFailed,
			Message: "1 of 2 checks failed", Checks: bad, Data: attention}, "dedupe.attention"),
		ok("export.attention", "export", 0, &stage.Outcome{Status: stage.StatusSkipped,
			Message: "gate.attention did not pass"}, "gate.attention"),
		ok("import.allreduce", "import", 0.1, &stage.Outcome{Status: stage.StatusOK}),
	}
}

func info(op, perf string, params ...string) stage.Info {
	return stage.Info{
		Op: op, Perf: perf, Params: params, Framework: "TRTLLM", Version: "1.3.0rc20", Device: "NVIDIA H200",
		System:  "h200_sxm",
		Runtime: "runtime.trtllm", Image: "registry.example/tensorrtllm-runtime:1.3.0rc20", ImageDigest: "sha256:4c1d",
		Env: map[string]string{"hostname": "node-17", "driver": "580.65.06", "cuda": "13.0", "torch": "2.9.0"},
	}
}

// rows collects rows of named columns.
type rows struct {
	names []string
	*table.Builder
}

func newRows(names ...string) rows { return rows{names, table.NewBuilder()} }

func (r rows) add(values ...any) {
	row := map[string]any{}
	for i, name := range r.names {
		row[name] = values[i]
	}
	if err := r.Append(row); err != nil {
		panic(err) // the values of a column are of one type
	}
}

// Gemm is a made-up table of matrix products, planned and measured in full.
func Gemm(rows int, seed uint64) (*stage.Dataset, error) {
	random := rand.New(rand.NewPCG(seed, 7))
	params := []string{"gemm_dtype", "m", "n", "k"}
	planned := newRows(append([]string{"case_id"}, append(params, "status")...)...)
	measured := newRows(append(append([]string{"case_id"}, params...), "framework", "version", "device",
		"kernel_source", "latency", "samples", "rel_stdev",
		"used_cuda_graph", "sm_clock_mhz", "throttled", "power", "worker", "device_uuid", "started_at")...)
	side := max(2, int(math.Cbrt(float64(rows)/3)))
	at := began
	peak := map[string]float64{"bfloat16": 989e12, "fp8": 1979e12, "fp8_block": 1979e12}

	n := 0
	for _, dtype := range []string{"bfloat16", "fp8", "fp8_block"} {
		for im := range side {
			for in := range side {
				for ik := range side {
					if n >= rows {
						break
					}

					n++
					m, nn, k := size(im, side, 1, 17), size(in, side, 7, 16), size(ik, side, 7, 16)
					flops := 2 * float64(m) * float64(nn) * float64(k)
					bytes := 2 * (float64(m)*float64(k) + float64(nn)*float64(k) + float64(m)*float64(nn))
					least := max(flops/peak[dtype], bytes/4.8e12) * 1000
					latency := (0.0045 + least/(0.45+0.35*random.Float64())) * (1 + 0.02*random.NormFloat64())
					noise := 0.004 * math.Exp(0.7*random.NormFloat64())
					clock := 1755 + 40*random.NormFloat64()

					throttled := random.Float64() < 0.02
					if throttled {
						clock -= 300
					}

					id := fmt.Sprintf("%s-%d-%d-%d", dtype, m, nn, k)
					at = at.Add(time.Duration(20+latency*40) * time.Millisecond)
					if n == rows/2 {
						at = at.Add(9 * time.Hour)
					}

					gpu := n % 4
					planned.add(id, dtype, m, nn, k, "planned")
					measured.add(id, dtype, m, nn, k, "TRTLLM", "1.3.0rc20", "NVIDIA H200", "cublaslt", latency, 24, noise,
						true, clock, throttled,
						420+60*random.NormFloat64(), fmt.Sprintf("w%d", gpu), fmt.Sprintf("GPU-%08x", 0x1a2b3c00+gpu),
						at.Format(time.RFC3339Nano))
				}
			}
		}
	}

	ds := &stage.Dataset{Info: info("gemm", "gemm_perf", params...)}
	ds.Table, ds.Planned = measured.Record(), planned.Record()
	ds.Ledger = table.NewBuilder(stage.LedgerSchema.Fields()...).Record()

	return ds, nil
}

// size is value i of side sizes between two powers of two.
func size(i, side int, from, to float64) int {
	return int(math.Round(math.Pow(2, from+(to-from)*float64(i)/float64(max(side-1, 1)))))
}
