package ops

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

func TestHostGraphs(t *testing.T) {
	measured := func(graph string, eager bool) (*bench, int64) {
		set := measure.Defaults()
		set.OperatingPoint = measure.PointRecovered
		set.Graph = graph
		raw, _ := json.Marshal(set)
		b := newBench(t, worker.Init{Measure: raw})
		b.lt.Eager = func(cuda.MatmulProblem) bool { return eager }
		seq := b.gemm("bfloat16", 64, 1024, 1024)
		if err := b.serve(); err != nil {
			t.Fatal(err)
		}
		return b, seq
	}
	for _, c := range []struct {
		graph     string
		eager     bool
		usedGraph bool
	}{{measure.GraphPrefer, false, true}, {measure.GraphPrefer, true, false}, {measure.GraphOff, false,
		false}, {measure.GraphRequire, false, true}} {
		b, seq := measured(c.graph, c.eager)
		r := b.row(seq)
		if r["used_cuda_graph"] != c.usedGraph {
			t.Errorf("graph %q, capture fails %v: used_cuda_graph is %v", c.graph, c.eager, r["used_cuda_graph"])
		}
		if got := r["latency"].(float64) / 1e3; !(math.Abs(got/matmulSeconds(cuda.RowMajorLinear(64, 1024, 1024, cuda.BF16,
			cuda.BF16))-1) <= 0.02) {
			t.Errorf("graph %q: latency %v s", c.graph, got)
		}
		b.noLeaks()
	}
	b, seq := measured(measure.GraphRequire, true)
	if f := b.failure(seq); !strings.Contains(f.Message, `graph = "require"`) || f.Fatal {
		t.Errorf("a required graph that cannot be captured ends with %+v", f)
	}
	b.noLeaks()
}

func TestHostPower(t *testing.T) {
	set := measure.Defaults()
	set.OperatingPoint = measure.PointRecovered
	set.Power = true
	raw, _ := json.Marshal(set)
	b := newBench(t, worker.Init{Measure: raw})
	b.nvml.GPUs[0].Draw.Instant = 432
	seq := b.gemm("bfloat16", 4096, 4096, 4096)
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	r := b.row(seq)
	if p := r["power"].(float64); !(math.Abs(p-432) <= 432*0.05) || r["power_method"] != "energy" {
		t.Errorf("power %v by %v, the device draws 432 W", p, r["power_method"])
	}
	if r["power_limit"] != 700.0 || !(r["power_seconds"].(float64) >= 1) {
		t.Errorf("limit %v over %v s, want 700 W over at least 1 s", r["power_limit"], r["power_seconds"])
	}
	// The case runs slower without a break than on a device that has recovered, and
	// its energy is that of the executions that drew the power.
	e, ran := r["energy"].(float64), r["power_latency"].(float64)
	if !(math.Abs(e/(r["power"].(float64)*ran/1e3)-1) <= 1e-9) || !(ran >= 1.05*r["latency"].(float64)) {
		t.Errorf("energy %v J of %v ms, the latency is %v ms", e, ran, r["latency"])
	}
	if truth := 432 * ran / 1e3; !(math.Abs(e/truth-1) <= 0.03) {
		t.Errorf("energy %v J, the device spent %v", e, truth)
	}
	b.noLeaks()

	// If the counter does not move, the sampled power is used.
	b = newBench(t, worker.Init{Measure: raw})
	b.nvml.GPUs[0].Now = nil
	seq = b.gemm("bfloat16", 64, 4096, 4096)
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	if r := b.row(seq); r["power_method"] != "sampled" || r["power"] != 110.0 {
		t.Errorf("power %v by %v, want 110 W, sampled", r["power"], r["power_method"])
	}

	// Without the library, the run continues and prints one message.
	b = newBench(t, worker.Init{Measure: raw})
	b.host.openNVML = func() (nvml.API, error) { return nil, nvml.ErrNotBuilt }
	seq = b.gemm("bfloat16", 64, 4096, 4096)
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.row(seq)["power"]; ok {
		t.Error("power without the management library")
	}
	if len(b.emit.logs) != 1 || !strings.Contains(b.emit.logs[0], "power is not measured") {
		t.Errorf("logs %q", b.emit.logs)
	}

	// Off by default: no column changes.
	b = newBench(t, worker.Init{})
	seq = b.gemm("bfloat16", 64, 4096, 4096)
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"power", "power_limit", "energy"} {
		if v, ok := b.row(seq)[name]; ok {
			t.Errorf("column %s is %v though power is off", name, v)
		}
	}
}

func TestHostReference(t *testing.T) {
	set := measure.Defaults()
	set.OperatingPoint = measure.PointRecovered
	set.Protocol = measure.ProtocolReference
	raw, _ := json.Marshal(set)
	b := newBench(t, worker.Init{Measure: raw})
	seq := b.gemm("bfloat16", 64, 1024, 1024)
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	r := b.row(seq)
	if r["protocol"] != measure.ProtocolReference || r["samples"] != 1 || b.emit.starts[seq] != 1 {
		t.Errorf("row %v, started %d times", r, b.emit.starts[seq])
	}
	// 3 eager products, then 3 and 6 replays of a graph of 5.
	if n := b.drv.Executed["matmul"]; n != 3+9*5 {
		t.Errorf("%d products ran, want 48", n)
	}
	if r["executions"] != 48 {
		t.Errorf("the row has %v executions", r["executions"])
	}
	if block, latency := r["block_ms"].(float64), r["latency"].(float64); !(math.Abs(block/latency/30-1) <= 1e-9) {
		t.Errorf("a block of 6 replays of 5 products takes %v ms, a product %v ms", block, latency)
	}
	b.noLeaks()
}

func TestHostUserKernel(t *testing.T) {
	binding := map[string]any{
		"source": "extern \"C\" __global__ void scale(float *y, const float *x, int n, float a) {}", "name": "scale.cu",
		"entry":   "scale",
		"options": []string{"-DTILE={tile}"}, "grid": []any{"blocks"}, "block": []any{256},
		"args": []any{
			map[string]any{"buffer": "out", "type": "float32", "elements": "n"},
			map[string]any{"buffer": "in", "type": "float32", "elements": "n"},
			map[string]any{"type": "int32", "value": "n"}, map[string]any{"type": "float32", "value": 2.5},
		},
		"bytes": "bytes", "flops": "n", "dtype": "float32",
	}
	raw, _ := json.Marshal(map[string]any{"scale": binding})
	b := newBench(t, worker.Init{Ops: raw})
	var launched []cuda.Launch
	b.drv.Launches = func(name string, k cuda.Launch) fakeWork {
		if name != "scale" {
			return fakeWork{}
		}
		launched = append(launched, k)
		return fakeWork{Name: name, Seconds: 40e-6, Watts: 200}
	}
	good := b.add("scale", map[string]any{"n": 1 << 20, "blocks": 4096, "tile": 32, "bytes": 8 << 20})
	missing := b.add("scale", map[string]any{"n": 1 << 20, "tile": 32, "bytes": 8 << 20})
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	r := b.row(good)
	if r["bytes"] != float64(8<<20) || r["flops"] != float64(1<<20) || r["kernel_source"] != "scale" {
		t.Errorf("row %v", r)
	}
	if got := r["latency"].(float64); !(math.Abs(got/0.040-1) <= 0.02) {
		t.Errorf("latency %v ms, the kernel takes 0.040", got)
	}
	k := launched[0]
	if k.Grid != [3]int{4096, 1, 1} || k.Block != [3]int{256, 1, 1} || len(k.Args) != 4 || k.Args[2] != int32(1<<20) ||
		k.Args[3] != float32(2.5) {
		t.Errorf("launched as %+v", k)
	}
	if opts := b.rtc.Programs[0].Options; len(opts) != 1 || opts[0] != "-DTILE=32" {
		t.Errorf("compiled with %q", opts)
	}
	if len(b.rtc.Programs) != 1 {
		t.Errorf("compiled %d times", len(b.rtc.Programs))
	}
	if f := b.failure(missing); !strings.Contains(f.Message, `"blocks"`) {
		t.Errorf("a parameter that is not there: %+v", f)
	}

	binding["source"] = "#error no"
	raw, _ = json.Marshal(map[string]any{"scale": binding})
	if err := b.host.Configure(worker.Init{Ops: raw}); err != nil {
		t.Fatal(err)
	}
	broken := b.add("scale", map[string]any{"n": 1 << 20, "blocks": 4096, "tile": 32, "bytes": 8 << 20})
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	if f := b.failure(broken); f.Class != worker.ClassCollectorBug || !strings.Contains(f.Message, "scale.cu(1): error") {
		t.Errorf("a kernel that does not compile: %+v", f)
	}

	// A user's kernel that loses the context is the user's fault.
	binding["source"] = "extern \"C\" __global__ void scale(float *y) {}"
	raw, _ = json.Marshal(map[string]any{"scale": binding})
	if err := b.host.Configure(worker.Init{Ops: raw}); err != nil {
		t.Fatal(err)
	}
	b.drv.Launches = func(name string, k cuda.Launch) fakeWork {
		if name != "scale" {
			return fakeWork{}
		}
		return fakeWork{Name: name, Seconds: 1e-6, Do: func(*fakeDriver) *cuda.DriverError {
			return cuda.NewDriverError("kernel", cuda.CodeIllegalAddress)
		}}
	}
	lethal := b.add("scale", map[string]any{"n": 1 << 20, "blocks": 1, "tile": 32, "bytes": 8})
	if _, ok := errors.AsType[*worker.RestartError](b.serve()); !ok {
		t.Error("the worker does not ask to be replaced")
	}
	if f := b.failure(lethal); !f.Fatal || f.Class != worker.ClassCollectorBug {
		t.Errorf("an illegal address in a user's kernel: %+v", f)
	}
}
