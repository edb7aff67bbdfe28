package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

func TestHostRows(t *testing.T) {
	b := newBench(t, worker.Init{})
	type want struct {
		seq     int64
		seconds float64
	}
	var wants []want
	for _, s := range [][3]int{{1, 2048, 2048}, {64, 4096, 4096}, {1024, 8192, 8192}, {4096, 4096, 4096}, {16, 128, 64}} {
		for _, typ := range []string{"bfloat16", "fp8", "int8"} {
			p := GEMM{M: int64(s[0]), N: int64(s[1]), K: int64(s[2]), Type: typ}.problem()
			wants = append(wants, want{b.gemm(typ, s[0], s[1], s[2]), matmulSeconds(p)})
		}
	}
	mem := b.add(OpMemory, map[string]any{"kernel": "triad", "size_bytes": 1 << 20})
	bmm := b.add(OpMLAPre, map[string]any{"num_tokens": 16, "num_heads": 128, "bmm_dtype": "bfloat16"})
	norm := b.add(OpElementwise, map[string]any{"kernel": "rmsnorm", "dtype": "bfloat16", "num_tokens": 32,
		"hidden_size": 4096})
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	for _, w := range wants {
		r := b.row(w.seq)
		if got := r["latency"].(float64) / 1e3; !(math.Abs(got/w.seconds-1) <= 0.02) {
			t.Errorf("case %d: latency %.4g s, the device takes %.4g", w.seq, got, w.seconds)
		}
		for _, name := range []string{"samples", "rel_stdev", "p10", "p90", "passes", "used_cuda_graph", "sm_clock_mhz",
			"ready_clock_mhz", "bytes", "flops", "sol_ms", "reached", "algo", "kernel_source", "cache", "tflop_per_s",
			"gb_per_s"} {
			if _, ok := r[name]; !ok {
				t.Errorf("case %d: no column %s", w.seq, name)
			}
		}
		if x := r["reached"].(float64); !(x > 0 && x <= 1) {
			t.Errorf("case %d reached %v of the speed of light", w.seq, x)
		}
		if b.emit.starts[w.seq] < 2 {
			t.Errorf("case %d was started %d times; each visit starts it", w.seq, b.emit.starts[w.seq])
		}
	}
	if r := b.row(mem); r["bytes"] != float64(3<<20) || r["flops"] != float64(2<<18) ||
		r["kernel_source"] != "aicplan_triad" {
		t.Errorf("triad row: %v", r)
	}
	if r := b.row(bmm); r["flops"] != 2*128.0*16*512*128 {
		t.Errorf("bmm row: %v", r)
	}
	if r := b.row(norm); r["bytes"] != float64(2*32*4096*2+2*4096) {
		t.Errorf("rmsnorm row: %v", r)
	}
	sum := 0.0
	for _, s := range b.emit.seconds {
		sum += s
	}
	if total := b.drv.Clock.Now().Seconds(); !(sum <= total*(1+1e-9) && sum >= 0.8*total) {
		t.Errorf("the cases' seconds add up to %.3f of %.3f", sum, total)
	}
	b.noLeaks()
}

// TestHostOrder serves the same cases in two orders: rows must not depend on it.
func TestHostOrder(t *testing.T) {
	run := func(seed uint64) map[string]float64 {
		b := newBench(t, worker.Init{Seed: int64(seed)})
		key := map[int64]string{}
		shapes := [][3]int{{16384, 16384, 8192}, {8192, 8192, 8192}, {1, 4096, 4096}, {4096, 8192, 8192}, {64, 1024, 1024},
			{512, 4096, 4096}, {16384, 8192, 8192}, {8, 7168, 2048}, {2048, 4096, 4096}, {256, 2048, 2048}}
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(shapes), func(i, j int) { shapes[i], shapes[j] = shapes[j], shapes[i] })
		for _, s := range shapes {
			key[b.gemm("bfloat16", s[0], s[1], s[2])] = fmt.Sprint(s)
		}
		if err := b.serve(); err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for seq, k := range key {
			out[k] = b.row(seq)["latency"].(float64)
		}
		b.noLeaks()
		return out
	}
	one, two := run(1), run(2)
	for k, v := range one {
		if r := v / two[k]; !(r <= 1.01 && r >= 0.99) {
			t.Errorf("%s: %.4f ms in one order, %.4f in another", k, v, two[k])
		}
	}
}

func TestHostFailures(t *testing.T) {
	b := newBench(t, worker.Init{Options: map[string]any{"arena_gb": 2.0}})
	b.lt.Unsupported = func(p cuda.MatmulProblem) bool { return p.ScaleB == cuda.ScaleVec128 }
	good := b.gemm("bfloat16", 64, 1024, 1024)
	for what, c := range map[string]struct {
		seq   int64
		class string
		text  string
	}{
		"an operand beyond the arena": {b.gemm("bfloat16", 1, 65536, 65536), worker.ClassResourceIssue, "GiB"},
		"no kernel": {b.gemm("fp8_block", 64, 1024, 1024), worker.ClassUnsupportedConfig,
			"NVIDIA H200 (sm_90) with cuBLASLt 130100"},
		"unknown dtype": {b.gemm("complex128", 64, 64, 64), worker.ClassUnsupportedConfig, `"complex128"`},
		"missing parameter": {b.add(OpGEMM, map[string]any{"gemm_dtype": "bfloat16", "m": 1, "n": 1}),
			worker.ClassCollectorBug, `"k" is missing`},
		"zero dimension": {b.gemm("bfloat16", 0, 64, 64), worker.ClassCollectorBug, "at least 1"},
		"unknown op":     {b.add("attention", map[string]any{}), worker.ClassUnsupportedConfig, "no op"},
		"odd size": {b.add(OpMemory, map[string]any{"kernel": "copy", "size_bytes": 30}),
			worker.ClassUnsupportedConfig, "multiple"},
		"unknown kernel": {b.add(OpMemory, map[string]any{"kernel": "sort", "size_bytes": 32}),
			worker.ClassUnsupportedConfig, "sort"},
		"rows not in eights": {b.add(OpElementwise,
			map[string]any{"kernel": "rmsnorm", "dtype": "bfloat16", "num_tokens": 1,
				"hidden_size": 100}), worker.ClassUnsupportedConfig, "multiple of 8"},
	} {
		defer func() {
			f := b.failure(c.seq)
			if f.Class != c.class || !strings.Contains(f.Message, c.text) || f.Fatal {
				t.Errorf("%s: %+v, want class %s and %q", what, f, c.class, c.text)
			}
		}()
	}
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	b.row(good)
	b.noLeaks()
}

// TestHostSticky loses the context at one case: it is blamed, the worker asks to
// be replaced, and no other case fails.
func TestHostSticky(t *testing.T) {
	b := newBench(t, worker.Init{})
	b.lt.Fault = func(p cuda.MatmulProblem) *cuda.DriverError {
		if p.N == 666 {
			return cuda.NewDriverError("kernel", cuda.CodeIllegalAddress)
		}
		return nil
	}
	bad := int64(0)
	for i := range 12 {
		b.gemm("bfloat16", 64+i, 1024, 1024)
		if i == 5 {
			bad = b.gemm("bfloat16", 666, 1024, 1024)
		}
	}
	err := b.serve()
	if _, ok := errors.AsType[*worker.RestartError](err); !ok {
		t.Fatalf("Serve returned %v, want a RestartError", err)
	}
	f := b.failure(bad)
	if !f.Fatal || f.Class != worker.ClassFrameworkBug || f.Exception != "CUDA_ERROR" {
		t.Errorf("the case that lost the context ended with %+v", f)
	}
	if len(b.emit.errs) != 1 {
		t.Errorf("innocent cases were blamed: %+v", b.emit.errs)
	}
}

// TestHostStickyWhilePreparing has the context lost at a call of the preparing
// thread: no case is to blame, the worker asks to be replaced.
func TestHostStickyWhilePreparing(t *testing.T) {
	b := newBench(t, worker.Init{})
	b.drv.Fail = func(call string) *cuda.DriverError {
		if call == "cuStreamBeginCapture" {
			return cuda.NewDriverError(call, cuda.CodeECC)
		}
		return nil
	}
	b.gemm("bfloat16", 64, 1024, 1024)
	b.gemm("bfloat16", 65, 1024, 1024)
	err := b.serve()
	if _, ok := errors.AsType[*worker.RestartError](err); !ok {
		t.Fatalf("Serve returned %v, want a RestartError", err)
	}
	if len(b.emit.errs)+len(b.emit.rows) != 0 {
		t.Errorf("cases were ended: %v %v", b.emit.errs, b.emit.rows)
	}
}

// TestHostFailsCaseOnLibraryError checks that an internal error of the library fails one case only, and that the
// process is not replaced if its context works.
func TestHostFailsCaseOnLibraryError(t *testing.T) {
	b := newBench(t, worker.Init{})
	b.lt.Stumble = func(p cuda.MatmulProblem) *cuda.BLASError {
		if p.N == 666 {
			return &cuda.BLASError{CallError: cuda.CallError{Code: cuda.StatusInternal, Name: "INTERNAL"}}
		}
		return nil
	}
	before := b.gemm("bfloat16", 64, 1024, 1024)
	bad := b.gemm("bfloat16", 666, 1024, 1024)
	after := b.gemm("bfloat16", 65, 1024, 1024)
	if err := b.serve(); err != nil {
		t.Fatalf("Serve returned %v", err)
	}
	b.row(before)
	b.row(after)
	if f := b.failure(bad); f.Fatal || f.Class != worker.ClassFrameworkBug || !strings.Contains(f.Message, "INTERNAL") {
		t.Errorf("%+v", f)
	}
	b.noLeaks()
}

func TestHostHello(t *testing.T) {
	b := newBench(t, worker.Init{Device: 1, Options: map[string]any{"window": 7.0}})
	h, err := b.host.Hello(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if h.DeviceUUID != b.drv.Infos[1].UUID || h.Window != 7 || h.Version != "13.1.0" || h.Framework != Framework ||
		h.Env["driver"] != "580.159.04" || h.Env["nvrtc"] != "13.0" || h.Env["ecc"] != "true" {
		t.Errorf("hello %+v", h)
	}
	for name, init := range map[string]worker.Init{
		"no device":      {Device: 9},
		"other uuid":     {UUID: "GPU-ffff"},
		"unknown option": {Options: map[string]any{"widnow": 1.0}},
		"unknown system": {Options: map[string]any{"system": "h200_pcie"}},
		"bad settings":   {Measure: json.RawMessage(`{"passes": 0}`)},
		"bad binding":    {Ops: json.RawMessage(`{"k": {"entry": "k"}}`)},
		"greedy arena":   {Options: map[string]any{"arena_gb": 4000.0}},
	} {
		b := newBench(t, init)
		_, err := b.host.Hello(context.Background())
		if se, ok := errors.AsType[*worker.Failure](err); !ok || se.Class == "" || len(se.Message) < 10 {
			t.Errorf("%s: Hello returned %v", name, err)
		}
	}
}

// TestHostDeviceOfOthers starts on a device that others have: that may pass, as a
// device without a kernel for something does not.
func TestHostDeviceOfOthers(t *testing.T) {
	for name, change := range map[string]func(*bench){
		"memory": func(b *bench) { b.drv.Infos[0].MemoryBytes = 300 << 20 },
		"exclusive mode": func(b *bench) {
			b.drv.Fail = func(call string) *cuda.DriverError {
				if call == "cuDevicePrimaryCtxRetain" {
					return cuda.NewDriverError(call, cuda.CodeUnavailable)
				}
				return nil
			}
		},
	} {
		b := newBench(t, worker.Init{})
		change(b)
		_, err := b.host.Hello(context.Background())
		if se, ok := errors.AsType[*worker.Failure](err); !ok || se.Class != worker.ClassResourceIssue {
			t.Errorf("%s: Hello returned %v", name, err)
		}
	}
}

// TestHostMissingLibraries opens a device without cuBLASLt and NVRTC. Ops that need them report the searched
// places, the others work.
func TestHostMissingLibraries(t *testing.T) {
	b := newBench(t, worker.Init{})
	b.host.open = func(o OpenOptions) (*Device, error) {
		return NewDevice(Libraries{Driver: b.drv, LtErr: errors.New("looked for libcublasLt.so.13 in /nowhere"),
			RTCErr: errors.New("looked for libnvrtc.so.13 in /nowhere")}, 0, o)
	}
	gemm := b.gemm("bfloat16", 64, 1024, 1024)
	norm := b.add(OpElementwise, map[string]any{"kernel": "rmsnorm", "dtype": "bfloat16", "num_tokens": 1,
		"hidden_size": 128})
	mem := b.add(OpMemory, map[string]any{"kernel": "copy", "size_bytes": 1 << 20})
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	b.row(mem)
	if f := b.failure(gemm); !strings.Contains(f.Message, "libcublasLt.so.13") {
		t.Errorf("%+v", f)
	}
	if f := b.failure(norm); !strings.Contains(f.Message, "libnvrtc.so.13") {
		t.Errorf("%+v", f)
	}
	b.noLeaks()
}

func TestMonitor(t *testing.T) {
	dev := cudatest.H200(0)
	now := time.Duration(0)
	m := newMonitor(dev, func() time.Duration { return now })
	m.own = func(pid int) bool { return pid == 1 }
	if cols := m.columns(0); cols != nil {
		t.Errorf("columns without a reading: %v", cols)
	}
	dev.Procs = []nvml.Process{{PID: 1}}
	m.poll()
	now = time.Second
	dev.Temp.GPU, dev.Why = 71, nvml.PowerCap|nvml.HwThermal
	dev.Procs = append(dev.Procs, nvml.Process{PID: 4711})
	m.poll()
	now = 2 * time.Second
	dev.Temp.GPU, dev.Why, dev.Procs = 60, nvml.Idle, nil
	m.poll()
	if c := m.columns(1500 * time.Millisecond); c["temperature_c"] != 60 || c["neighbours"] != 0 ||
		c["clock_reasons"] != "none" || c["throttled"] != false {
		t.Errorf("the last second: %v", c)
	}
	if c := m.columns(500 * time.Millisecond); c["temperature_c"] != 71 || c["neighbours"] != 1 ||
		c["clock_reasons"] != "power cap, hardware thermal slowdown" || c["throttled"] != true {
		t.Errorf("from the disturbance on: %v", c)
	}
	if c := m.columns(5 * time.Second); c["temperature_c"] != 60 {
		t.Errorf("nothing newer must give the last reading: %v", c)
	}
	dev.Fail = map[string]error{"Temperature": nvml.ErrUnsupported, "Processes": nvml.ErrUnsupported,
		"Reasons": nvml.ErrUnsupported, "Clocks": nvml.ErrUnsupported}
	now = 10 * time.Second
	m.poll()
	if c := m.columns(9 * time.Second); len(c) != 0 {
		t.Errorf("a driver that reports nothing: %v", c)
	}
}

// TestProbeCopies checks the bandwidth of the link between the fake devices.
func TestProbeCopies(t *testing.T) {
	b := newBench(t, worker.Init{})
	d := b.device()
	small, peer, err := d.ProbeCopies(context.Background())
	if err != nil || !(small > 0 && small < 1e-4) || !(math.Abs(peer/350e9-1) <= 0.05) {
		t.Errorf("a small copy takes %v s, a copy to another device moves %v bytes/s, %v", small, peer, err)
	}
}
