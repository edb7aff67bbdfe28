package ops

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// TestHostManyBlocks asks for more blocks a visit than a device can queue at
// once, with and without graphs.
func TestHostManyBlocks(t *testing.T) {
	for _, graph := range []string{measure.GraphPrefer, measure.GraphOff} {
		set := measure.Defaults()
		set.OperatingPoint = measure.PointRecovered
		set.MinSamples, set.MaxSamples, set.Graph = 100, 100, graph
		raw, _ := json.Marshal(set)
		b := newBench(t, worker.Init{Measure: raw})
		most, queued := 0, 0
		b.drv.Fail = func(call string) *cuda.DriverError {
			switch call {
			case "cuStreamSynchronize":
				queued = 0
			case "cuLaunchKernel", "cuGraphLaunch", "cuEventRecord", "enqueue matmul":
				queued++
				most = max(most, queued)
			}
			return nil
		}
		seq := b.gemm("bfloat16", 16, 128, 64)
		if err := b.serve(); err != nil {
			t.Fatal(err)
		}
		if r := b.row(seq); r["samples"] != 200 || r["passes"] != 2 {
			t.Errorf("graph %q: %v samples in %v passes, want 100 a pass", graph, r["samples"], r["passes"])
		}
		if most > 600 {
			t.Errorf("graph %q: %d operations were queued behind a closed gate", graph, most)
		}
		b.noLeaks()
	}
}

// kernelBench has an op k: a kernel of the given duration with unknown bytes and operations.
func kernelBench(t *testing.T, graph string, seconds float64, launched *[]cuda.Launch) *bench {
	t.Helper()
	set := measure.Defaults()
	set.OperatingPoint = measure.PointRecovered
	set.Graph = graph
	rawSet, _ := json.Marshal(set)
	raw, _ := json.Marshal(map[string]any{"k": map[string]any{
		"source": "extern \"C\" __global__ void k() {}", "entry": "k", "grid": []any{"blocks"}, "block": []any{32},
		"shared": "shared",
	}})
	b := newBench(t, worker.Init{Ops: raw, Measure: rawSet})
	b.drv.Launches = func(name string, k cuda.Launch) fakeWork {
		if name != "k" {
			return fakeWork{}
		}
		*launched = append(*launched, k)
		return fakeWork{Name: name, Seconds: seconds}
	}
	return b
}

// TestHostSharedMemorySideBySide has two cases of one kernel open at once: the
// one that needs less must not take away what the other one needs.
func TestHostSharedMemorySideBySide(t *testing.T) {
	var launched []cuda.Launch
	b := kernelBench(t, measure.GraphOff, 5e-6, &launched)
	large := b.add("k", map[string]any{"blocks": 1, "shared": 200 << 10})
	small := b.add("k", map[string]any{"blocks": 1, "shared": 64 << 10})
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	b.row(large)
	b.row(small)
}

// TestHostNumbersBeyondALaunch has sizes that a 32-bit number cannot hold: cut
// off, they would measure something else under their name.
func TestHostNumbersBeyondALaunch(t *testing.T) {
	var launched []cuda.Launch
	b := kernelBench(t, measure.GraphPrefer, 5e-6, &launched)
	grid := b.add("k", map[string]any{"blocks": 1<<32 + 5, "shared": 0})
	shared := b.add("k", map[string]any{"blocks": 1, "shared": 1<<32 + 5})
	gemm := b.gemm("bfloat16", 1<<33, 1<<33, 1<<33)
	near := b.gemm("bfloat16", math.MaxInt32-8, math.MaxInt32-8, 64)
	bmm := b.add(OpMLAPre, map[string]any{"num_tokens": 1 << 40, "num_heads": 1 << 40, "bmm_dtype": "bfloat16"})
	norm := b.add(OpElementwise, map[string]any{"kernel": "silu_and_mul", "dtype": "bfloat16", "num_tokens": math.MaxInt32,
		"hidden_size": math.MaxInt32 - 7})
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	for seq, text := range map[int64]string{
		grid: "grid is 4294967301", shared: "shared is 4294967301", gemm: "32-bit", near: "GiB", bmm: "neither may be more",
		norm: "GiB",
	} {
		if f := b.failure(seq); !strings.Contains(f.Message, text) || f.Fatal {
			t.Errorf("case %d: %+v, want %q", seq, f, text)
		}
	}
	if len(launched) > 0 {
		t.Errorf("launched %+v", launched)
	}
	b.noLeaks()
}

// TestHostPowerCounterStops checks that a case ends if its energy counter stops.
func TestHostPowerCounterStops(t *testing.T) {
	set := measure.Defaults()
	set.OperatingPoint = measure.PointRecovered
	set.Power = true
	raw, _ := json.Marshal(set)
	b := newBench(t, worker.Init{Measure: raw})
	var began time.Duration
	asked := 0
	b.nvml.GPUs[0].Now = func() time.Duration {
		if asked++; asked == 1 {
			began = b.drv.Clock.Now()
		}
		if asked > 1_000_000 {
			t.Fatal("the energy counter is read for ever")
		}
		return min(b.drv.Clock.Now(), began+700*time.Millisecond)
	}
	seq := b.gemm("bfloat16", 4096, 4096, 4096)
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	if r := b.row(seq); !(r["power"].(float64) >= 50) || !(r["power_seconds"].(float64) <= 0.7) {
		t.Errorf("power %v over %v s", r["power"], r["power_seconds"])
	}
}

// TestHostPanicUnderLoad has a reading panic while a case runs for its power: the
// worker serves the other cases again, which need the device.
func TestHostPanicUnderLoad(t *testing.T) {
	set := measure.Defaults()
	set.OperatingPoint = measure.PointRecovered
	set.Power = true
	raw, _ := json.Marshal(set)
	b := newBench(t, worker.Init{Measure: raw})
	b.nvml.GPUs[0].Now = func() time.Duration { panic("a reading") }
	b.gemm("bfloat16", 64, 1024, 1024)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = b.serve()
	}()
	if !b.host.dev.busy.TryLock() {
		t.Fatal("the device is still held")
	}
	b.host.dev.busy.Unlock()
	b.nvml.GPUs[0].Now = b.drv.Clock.Now
	seq := b.gemm("bfloat16", 64, 1024, 1024)
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	b.row(seq)
	b.noLeaks()
}

// TestHostKernelOfUnknownLength must not run a kernel of 50 ms as often as fits
// one of microseconds before it knows better.
func TestHostKernelOfUnknownLength(t *testing.T) {
	var launched []cuda.Launch
	b := kernelBench(t, measure.GraphPrefer, 50e-3, &launched)
	seq := b.add("k", map[string]any{"blocks": 1, "shared": 0})
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	r := b.row(seq)
	if ms := r["latency"].(float64); !(math.Abs(ms/50-1) <= 0.02) {
		t.Errorf("%v ms, the kernel takes 50", ms)
	}
	if n := b.drv.Executed["k"]; n > 30 {
		t.Errorf("the kernel ran %d times for %v passes of %v samples", n, r["passes"], r["samples"])
	}
}
