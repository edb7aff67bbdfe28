package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/gate/results"
	"aicplan/stages/report/model"
	"aicplan/systems"
)

var began = time.Date(2026, 3, 4, 22, 5, 0, 0, time.UTC)

// sampleInput is a made-up run on an H200: a matrix product of about so many rows, an
// attention with failed and skipped cases whose gate failed, and an imported
// table; the matrix product is compared with a reference.
func sampleInput(t testing.TB, rows int) model.Input {
	t.Helper()
	spec, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}

	gemm, reference := sampleGemm(rows, 1), sampleGemm(rows, 2)
	reference.Planned, reference.Ledger = nil, nil
	attention := sampleAttention(t)

	n := int(gemm.Table.NumRows())
	exitCode := 4
	in := model.Input{
		Title: "H200 SXM, TensorRT-LLM 1.3.0rc20",
		Run: model.Run{ID: "20260304T220500.000-ab12", Plan: "plans/h200_trtllm.hcl",
			Started: "2026-03-04T22:05:00Z", Seconds: 9876.5, ExitCode: &exitCode},
		Tables: []model.TableInput{
			{Address: "gate.gemm", Data: gemm, Reference: reference, ReferenceName: "vllm 0.19.0"},
			{Address: "dedupe.attention", Data: attention},
			{Address: "import.allreduce", Data: allreduce()},
		},
		System: func(string) *systems.Spec { return spec },
	}

	in.Finished = finished(gemm, attention, n)
	return in
}

func finished(gemm, attention *stage.Dataset, rows int) []stage.Finished {
	ok := func(address, kind string, seconds float64, o *stage.Outcome, after ...string) stage.Finished {
		return stage.Finished{Address: address, Kind: kind, Class: sampleClass(kind), Seconds: seconds, Outcome: o,
			After: after}
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

// sampleGemm is a made-up table of matrix products, planned and measured in full.
func sampleGemm(rows int, seed uint64) *stage.Dataset {
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

	return ds
}

// size is value i of side sizes between two powers of two.
func size(i, side int, from, to float64) int {
	return int(math.Round(math.Pow(2, from+(to-from)*float64(i)/float64(max(side-1, 1)))))
}

// sampleAttention is a made-up table with cases that failed in two ways, and cases
// that a breaker skipped.
func sampleAttention(t testing.TB) *stage.Dataset {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	params := []string{"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "attn_dtype", "kv_cache_dtype"}
	planned := newRows(append(append([]string{"case_id"}, params...), "status")...)
	measured := newRows(append(append([]string{"case_id"}, params...), "framework", "version", "device",
		"kernel_source", "latency", "rel_stdev", "sm_clock_mhz", "worker", "device_uuid", "started_at")...)
	ledger := table.NewBuilder(stage.LedgerSchema.Fields()...)

	at := began.Add(3 * time.Hour)
	for _, kv := range []string{"bfloat16", "fp8"} {
		for b := 1; b <= 64; b *= 2 {
			for isl := 128; isl <= 16384; isl *= 2 {
				for _, heads := range []int{32, 64} {
					id := fmt.Sprintf("a-%s-%d-%d-%d", kv, b, isl, heads)
					planned.add(id, b, isl, heads, 8, 128, "bfloat16", kv, "planned")

					at = at.Add(90 * time.Millisecond)
					if b*isl > 262144 || kv == "fp8" && isl == 16384 {
						row := map[string]any{
							"case_id": id, "params": fmt.Sprintf(`{"batch_size":%d,"isl":%d,"num_heads":%d,"kv_cache_dtype":%q}`, b,
								isl, heads, kv),
							"status": "failed", "class": "resource_issue", "group": "", "type": "OutOfMemoryError",
							"message": fmt.Sprintf("CUDA out of memory: tried to allocate %d.25 GiB", 100+b),
							"traceback": "Traceback (most recent call last):\n  File \"bench.py\", line 41, in run\n    " +
								"torch.empty(<huge>)\nOutOfMemoryError", "attempts": 2, "worker": "w1",
							"device_uuid": "GPU-1a2b3c01", "at": at.Format(time.RFC3339Nano),
						}
						if kv == "fp8" {
							row["class"], row["type"], row["message"] = "framework_bug", "RuntimeError",
								"no kernel for head_dim=128 with an fp8 cache | <sm90>"
						}

						if heads == 64 && b > 16 {
							row["status"], row["class"], row["message"], row["traceback"], row["attempts"] = "skipped", "tripped",
								"its group failed 5 times from its first case on", "", 0
						}

						if err := ledger.Append(row); err != nil {
							t.Fatal(err)
						}

						continue
					}

					latency := 0.01 + float64(b)*float64(isl)*float64(isl)*float64(heads)*128*4/989e12*1000*(1.2+
						0.3*random.Float64())*(1+800/float64(isl)/float64(b))
					measured.add(id, b, isl, heads, 8, 128, "bfloat16", kv, "TRTLLM", "1.3.0rc20", "NVIDIA H200", "fmha_v2",
						latency, 0.003*(1+random.Float64()), 1700+20*random.NormFloat64(),
						"w1", "GPU-1a2b3c01", at.Format(time.RFC3339Nano))
				}
			}
		}
	}

	return &stage.Dataset{Info: info("attention_context", "context_attention_perf", params...),
		Table: measured.Record(), Planned: planned.Record(), Ledger: ledger.Record()}
}

// allreduce is a small table as an import hands it on: no plan, no ledger.
func allreduce() *stage.Dataset {
	c := newRows("framework", "version", "device", "op_name", "kernel_source", "allreduce_dtype", "num_gpus",
		"message_size", "latency")
	for _, gpus := range []int{2, 4, 8} {
		for size := 256; size <= 1<<26; size *= 4 {
			c.add("TRTLLM", "1.2.0", "NVIDIA H200", "all_reduce", "TRTLLM", "bfloat16", gpus, size,
				0.006+float64(size)/3e8*float64(gpus)/4)
		}
	}

	i := info("custom_allreduce", "custom_allreduce_perf")
	i.Version, i.Params, i.Env, i.Image, i.ImageDigest = "1.2.0", nil, nil, "", ""
	return &stage.Dataset{Info: i, Table: c.Record()}
}

var classes = map[string]stage.Class{
	"preflight": stage.Guard,
	"grid":      stage.Source,
	"import":    stage.Source,
	"collect":   stage.Measure,
	"dedupe":    stage.Transform,
	"gate":      stage.Check,
	"verify":    stage.Verify,
	"export":    stage.Sink,
	"report":    stage.Report,
	"publish":   stage.Publish,
}

// sampleClass returns the class of a stage kind.
func sampleClass(kind string) stage.Class { return classes[kind] }

// samplePrediction is a made-up gate that compared predictions with static steps: four
// workloads, one of them traced, one not predicted.
func samplePrediction(t testing.TB) stage.Finished {
	t.Helper()
	heads := []string{"op", "predicted (ms)", "measured (ms)", "difference (ms)"}
	detail := results.Prediction{
		Kind: "prediction", Predicted: "module.ours.collect.predicted", Traces: "collect.traces",
		Notes: []string{"1 prediction with a warning: the batch does not fit <once>",
			"predicted from tables_version=0.24.0 tables_digest=sha256:1f2e", "all with tensor_parallel_size 1"},
		Tables: []results.Table{
			{Texts: 1, Heads: []string{"of", "compared", "error p50 (%)", "asked (%)", "error p95 (%)", "asked (%)",
				"predicted / measured, median"}, Rows: [][]any{{"ttft", "3", 12.0, 3.0, 21.0, 8.0, 0.88},
				{"tpot", "3", 2.0, 3.0, 6.0, 8.0, 0.98}}},
			{Note: "2 more workloads not listed", Heads: []string{"isl", "concurrency", "ttft measured (ms)",
				"predicted (ms)", "error (%)", "server's queue (ms)", "SM clock (MHz)"}, Rows: [][]any{
				{"1024", "8", 210.0, 176.0, -16.19, 26.3, 1512.4}, {"256", "1", 9.1, 7.45, -18.13, nil, nil},
				{"4096", "1", 95.0, 92.8, -2.316, nil, nil}, {"8192", "1", 201.0, "not predicted", nil, nil, nil}}},
		},
		Parts: []results.Table{
			{Title: "isl 1024, concurrency 8, prefill", Texts: 1, Heads: heads, Rows: [][]any{
				{"gemm silicon", 157.8, 186.0, 28.2}, {"attention mixed", 7.6, 7.9, 0.3}, {"other empirical", 10.6, 7.1, -3.5},
				{"no kernel: launches, host, scheduler", nil, 9.0, 9.0}, {"in all", 176.0, 210.0, 34.0}}},
			{Title: "isl 1024, concurrency 8, decode", Texts: 1, Heads: heads, Rows: [][]any{
				{"gemm silicon", 4.18, 4.1, -0.08}, {"attention silicon", 0.59, 0.55, -0.04}, {"in all", 5.07, 5.31, 0.24}}},
			{Title: "isl 256, concurrency 1, prefill", Note: "no trace of it", Texts: 1, Heads: heads, Rows: [][]any{
				{"gemm", 7.45, nil, nil}, {"in all", 7.45, nil, nil}}},
		},
	}

	raw, err := json.Marshal(detail)
	if err != nil {
		t.Fatal(err)
	}

	return stage.Finished{Address: "gate.steps", Kind: "gate", Class: sampleClass("gate"),
		Outcome: &stage.Outcome{Status: stage.StatusGateFailed, Checks: []stage.CheckResult{
			{Name: "prediction of module.ours.collect.predicted", Severity: "fail", Result: "fail",
				Message: "too far off", Detail: raw},
		}}}
}

// predictionReport is a report with Predicted among its gates.
func predictionReport(t *testing.T) *model.Report {
	t.Helper()
	in := sampleInput(t, 100)

	f := samplePrediction(t)

	in.Finished = append(in.Finished, f)
	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}

	return r
}

// sampleReport is the report of the sample run.
func sampleReport(t *testing.T) *model.Report {
	t.Helper()
	in := sampleInput(t, 400)

	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// golden compares the sample's report, as it is written, with a file, or writes
// the file.
func golden(t *testing.T, path string, update bool, write func(io.Writer, *model.Report) error) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, sampleReport(t)); err != nil {
		t.Fatal(err)
	}

	if update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("differs from %s (-update rewrites it):\n%s", path, b.String())
	}
}
