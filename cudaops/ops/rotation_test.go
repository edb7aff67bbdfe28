package ops

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// rotationVectors are shared with the Python worker's tests.
type rotationVectors struct {
	L2    int64 `json:"l2_bytes"`
	Cases []struct {
		Bytes  float64 `json:"bytes"`
		Native *struct {
			Sets      int `json:"sets"`
			PerLaunch int `json:"per_launch"`
		} `json:"native"`
	} `json:"cases"`
}

// orderBench is a device on which kernels with a number of an operand set as
// their only argument note it when the device gets to them.
func orderBench(t *testing.T) (*Device, *[]int) {
	t.Helper()
	b := newBench(t, worker.Init{})
	d := b.device()
	var order []int
	b.drv.Launches = func(name string, k cuda.Launch) fakeWork {
		w := fakeWork{Name: name, Seconds: 5e-6}
		if name == "aicplan_null" {
			set := k.Args[0].(int32)
			w.Do = func(*fakeDriver) *cuda.DriverError {
				order = append(order, int(set))
				return nil
			}
		}
		return w
	}
	unbind, err := d.Bind()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unbind)
	return d, &order
}

// TestRotationOrder checks the order of operand sets over whole visits. No set is read again before all others,
// wherever graphs, warm-ups and blocks end.
func TestRotationOrder(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../measure/testdata/rotation.json")
	if err != nil {
		t.Fatal(err)
	}
	var v rotationVectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	d, order := orderBench(t)
	if d.Info.L2Bytes != v.L2 {
		t.Fatalf("the vectors are for a cache of %d bytes", v.L2)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	tried := 0
	for _, c := range v.Cases {
		if c.Native == nil {
			continue
		}
		tried++
		for _, graph := range []Graphs{{Mode: measure.GraphRequire},
			{Mode: measure.GraphRequire, Seconds: measure.Defaults().GraphSeconds()}, {Mode: measure.GraphOff}} {
			x := &Case{Label: "order", Bytes: c.Bytes}
			d.rotate(x, c.Bytes)
			if x.Sets != c.Native.Sets || x.PerGraph != c.Native.PerLaunch {
				t.Fatalf("%.0f bytes: %d sets in graphs of %d, want %d and %d", c.Bytes, x.Sets, x.PerGraph, c.Native.Sets,
					c.Native.PerLaunch)
			}
			x.Enqueue = func(set int, s cuda.Stream) error {
				return d.Lib.Driver.Launch(cuda.Launch{Func: d.core.null, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1},
					Args: []any{int32(set)}}, s)
			}
			target, err := d.NewTarget(x, graph)
			if err != nil {
				t.Fatal(err)
			}
			*order = nil
			for range 12 {
				b := measure.Burst{Soak: rng.IntN(30), Warm: rng.IntN(8), Executions: 1 + rng.IntN(40), Blocks: 1 + rng.IntN(4)}
				if _, err := target.Burst(context.Background(), b); err != nil {
					t.Fatal(err)
				}
			}
			for i, set := range *order {
				if want := i % x.Sets; set != want {
					t.Errorf("%.0f bytes, %+v: execution %d reads set %d of %d, want %d", c.Bytes, graph, i, set, x.Sets, want)
					break
				}
			}
			target.Close()
		}
	}
	if tried < 10 {
		t.Errorf("%d vectors", tried)
	}
}

// TestGraphLengths checks how many executions a graph has: whole rotations of the requested duration, or the
// minimum if one execution takes that long or its duration is unknown.
func TestGraphLengths(t *testing.T) {
	t.Parallel()
	const asked = 100e-6
	for _, c := range []struct {
		what      string
		c         Case
		execution float64
		seconds   float64
		want      int
	}{
		{"a short kernel", Case{Sets: 5, PerGraph: 5}, 2e-6, asked, 50},
		{"a shorter one than 64 fill", Case{Sets: 5, PerGraph: 5}, 0.5e-6, asked, 60},
		{"of no time", Case{Sets: 5, PerGraph: 5}, 0, asked, 60},
		{"rounded up to a rotation", Case{Sets: 6, PerGraph: 2}, 15e-6, asked, 12},
		{"one rotation that takes longer", Case{Sets: 4, PerGraph: 1}, 60e-6, asked, 4},
		{"one execution that takes as long", Case{Sets: 3, PerGraph: 1}, asked, asked, 1},
		{"more sets than 64", Case{Sets: 80, PerGraph: 5}, 1e-6, asked, 80},
		{"a user's kernel", Case{Sets: 5, PerGraph: 5, Unsure: true}, 2e-6, asked, 5},
		{"the reference protocol", Case{Sets: 5, PerGraph: 5}, 2e-6, 0, 5},
		{"a chain", Case{Sets: 2, PerGraph: 1, Kernels: 8}, 1e-6, asked, 8},
		{"a long chain", Case{Sets: 2, PerGraph: 1, Kernels: 100}, 1e-6, asked, 2},
	} {
		got := Graphs{Seconds: c.seconds}.perGraph(&c.c, c.execution)
		if got != c.want {
			t.Errorf("%s: %d executions, want %d", c.what, got, c.want)
		}
		if got%c.c.Sets != 0 && c.c.Sets%got != 0 {
			t.Errorf("%s: %d executions are no whole rotations of %d", c.what, got, c.c.Sets)
		}
	}
}

// TestGraphsOfHosts checks which cases get longer graphs: none with the reference protocol, and layers the
// longest at the other points.
func TestGraphsOfHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		change func(*measure.Settings)
		settle float64
		want   Graphs
	}{
		{"sustained", func(*measure.Settings) {}, 0, Graphs{Mode: "prefer", Captures: 2, Seconds: 100e-6}},
		{"recovered", func(s *measure.Settings) { s.OperatingPoint = measure.PointRecovered }, 0,
			Graphs{Mode: "prefer", Captures: 1, Seconds: 100e-6}},
		{"a layer", func(*measure.Settings) {}, 2, Graphs{Mode: "prefer", Captures: 1, Seconds: 500e-6}},
		{"the reference protocol", func(s *measure.Settings) { s.Protocol = measure.ProtocolReference }, 0,
			Graphs{Mode: "prefer", Captures: 1}},
		{"a layer by it", func(s *measure.Settings) { s.Protocol = measure.ProtocolReference }, 2,
			Graphs{Mode: "prefer", Captures: 1}},
	} {
		h := &Host{set: settings{measure: measure.Defaults()}}
		c.change(&h.set.measure)
		if got := h.graphs(&Case{Settle: c.settle}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// TestBurstsOfChains checks that a burst never queues more kernels of a chain than the queue of a device
// accepts while the gate is closed.
func TestBurstsOfChains(t *testing.T) {
	t.Parallel()
	d, order := orderBench(t)
	const kernels = 16
	x := &Case{Label: "chain", Bytes: 1 << 30, Sets: 2, PerGraph: 1, Kernels: kernels}
	x.Enqueue = func(set int, s cuda.Stream) error {
		for range kernels {
			if err := d.Lib.Driver.Launch(cuda.Launch{Func: d.core.null, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1},
				Args: []any{int32(set)}}, s); err != nil {
				return err
			}
		}
		return nil
	}
	target, err := d.NewTarget(x, Graphs{Mode: measure.GraphRequire})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	gates := func() uint32 { return d.gateNo }
	before := gates()
	const blocks, each = 40, 3
	if got, err := target.Burst(context.Background(), measure.Burst{Executions: each, Blocks: blocks}); err != nil ||
		len(got) != blocks {
		t.Fatalf("%d blocks: %v", len(got), err)
	}
	if opened, least := gates()-before, uint32(blocks*each*kernels/queueDepth); opened < least {
		t.Errorf("%d kernels behind %d gates, want at least %d", blocks*each*kernels, opened, least)
	}
	if len(*order) < blocks*each*kernels {
		t.Errorf("%d kernels ran", len(*order))
	}
}

// TestRotationOfProducts takes the operand sets from the products themselves:
// weights in the sizes that were read hot before.
func TestRotationOfProducts(t *testing.T) {
	t.Parallel()
	d := newBench(t, worker.Init{}).device()
	for _, nk := range [][2]int64{{2560, 2048}, {5120, 4096}, {7168, 4096}, {4096, 2048}, {8192, 2048}, {128, 64},
		{65536, 1024}} {
		one, err := GEMM{M: 1, N: nk[0], K: nk[1], Type: "bfloat16"}.prepare(d)
		if err != nil {
			t.Fatal(err)
		}
		c := one
		weight := float64(2 * nk[0] * nk[1])
		if c.Sets%c.PerGraph != 0 {
			t.Errorf("%s: %d sets in graphs of %d", c.Label, c.Sets, c.PerGraph)
		}
		if cold := float64(c.Sets)*weight >= float64(d.Info.L2Bytes); cold != (c.Columns["cache"] == "cold") {
			t.Errorf("%s: %v with %d sets of %.0f bytes", c.Label, c.Columns["cache"], c.Sets, weight)
		}
	}
	// A pool smaller than the cache has no cold operands, because all sets share its memory.
	if got := d.cacheState(16, 16<<20, &Pool{bytes: 50 << 20}); got != "hot" {
		t.Errorf("sixteen sets in a pool of 50 MiB are %s", got)
	}
}

// TestCapturesTakeTurns checks what a target with several captures launches: the graphs of the capture that a
// burst requests, with operand sets in one order for all captures.
func TestCapturesTakeTurns(t *testing.T) {
	t.Parallel()
	d, order := orderBench(t)
	x := &Case{Label: "captures", Bytes: 4 << 20, Sets: 6, PerGraph: 2}
	x.Enqueue = func(set int, s cuda.Stream) error {
		return d.Lib.Driver.Launch(cuda.Launch{Func: d.core.null, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1},
			Args: []any{int32(set)}}, s)
	}
	target, err := d.NewTarget(x, Graphs{Mode: measure.GraphRequire, Captures: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if target.Captures() != 2 {
		t.Fatalf("%d captures", target.Captures())
	}
	seen := map[cuda.GraphExec]int{}
	for capture := range 5 {
		if _, err := target.Burst(context.Background(),
			measure.Burst{Warm: 1, Executions: 5, Blocks: 2, Capture: capture}); err != nil {
			t.Fatal(err)
		}
		for _, g := range target.execs() {
			if had, ok := seen[g]; ok && had != capture%2 {
				t.Errorf("burst %d runs a graph of capture %d", capture, had)
			}
			seen[g] = capture % 2
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d graphs ran, want three of each capture", len(seen))
	}
	for i, set := range *order {
		if set != i%x.Sets {
			t.Fatalf("execution %d reads set %d of %d", i, set, x.Sets)
		}
	}
	// Where an execution is long, launching it is no share of it.
	long := *x
	long.Bytes = 1 << 40
	once, err := d.NewTarget(&long, Graphs{Mode: measure.GraphRequire, Captures: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer once.Close()
	if once.Captures() != 1 {
		t.Errorf("%d captures of an execution of a second", once.Captures())
	}
}

// TestInputsOfOnePoolLieApart: inputs of a user's kernel do not share memory if their types share a pool.
func TestInputsOfOnePoolLieApart(t *testing.T) {
	t.Parallel()
	d, _ := orderBench(t)
	x := &userBuffer{in: true, dtype: Float32, bytes: 1 << 20}
	y := &userBuffer{in: true, dtype: BFloat16, bytes: 1 << 20}
	if _, err := d.userOperands("apart", 3, []*userBuffer{x, y}); err != nil {
		t.Fatal(err)
	}
	for _, a := range x.at {
		for _, b := range y.at {
			if a < b+1<<20 && b < a+1<<20 {
				t.Errorf("arrays at %#x and %#x overlap", a, b)
			}
		}
	}
}
