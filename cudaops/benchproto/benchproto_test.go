package benchproto

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/cublaslt/cublaslttest"
	"aicplan/cudaops/driver/drivertest"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
	"aicplan/cudaops/ops"
	"aicplan/systems"
)

func TestSamples(t *testing.T) {
	for _, name := range []string{ByRank, ByLatency} {
		shapes, err := Sample(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(shapes) != 300 {
			t.Errorf("%s has %d shapes, want 300", name, len(shapes))
		}
		seen := map[Shape]bool{}
		for _, s := range shapes {
			if s.M < 1 || s.N < 1 || s.K < 1 || s.PublishedMS < 0.002 || s.PublishedMS > 20 || seen[s] {
				t.Errorf("%s: implausible or repeated shape %+v", name, s)
			}
			seen[s] = true
		}
	}
	shapes, err := Sample(ByLatency)
	if err != nil {
		t.Fatal(err)
	}
	few := Thin(shapes, 7)
	if len(few) != 7 || few[0] != shapes[0] || few[6] != shapes[257] || len(Thin(shapes, 0)) != 300 || len(Thin(shapes, 1000)) != 300 {
		t.Errorf("thinned to %v", few)
	}
	if _, err := Sample("none"); err == nil {
		t.Error("a sample that does not exist was read")
	}
}

func fakeBench(t *testing.T, seed uint64, shapes []Shape) *Bench {
	t.Helper()
	clock := &measuretest.Clock{}
	drv := drivertest.New(measuretest.NewGPU(clock, rand.New(rand.NewPCG(seed, 1))), 1)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	d, err := ops.NewDevice(ops.Libraries{Driver: drv, Lt: &cublaslttest.Lt{Driver: drv}}, 0, ops.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	d.Peaks = ops.PeaksOf(spec)
	return &Bench{Device: d, Shapes: shapes, Settings: measure.Defaults(), Tuning: measure.DefaultTuning(600), Window: 64, Clock: clock}
}

// TestBench runs both protocols on the fake GPU: the report must show that the
// session repeats where the reference does not.
func TestBench(t *testing.T) {
	shapes, err := Sample(ByLatency)
	if err != nil {
		t.Fatal(err)
	}
	var few []Shape
	for i := 0; i < len(shapes); i += 5 {
		few = append(few, shapes[i])
	}
	var runs []Run
	for seed := uint64(1); seed <= 3; seed++ {
		b := fakeBench(t, seed, few)
		s, err := b.Run(context.Background(), Recovered, 0, seed)
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Run(context.Background(), Reference, 0, seed)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, *s, *r)
	}
	rep := NewReport("fake", few, runs)
	if len(rep.Protocols) != 2 {
		t.Fatalf("%d protocols", len(rep.Protocols))
	}
	own, ref := rep.Protocols[0], rep.Protocols[1]
	if own.Protocol != Recovered || own.Errors != 0 || own.Runs != 3 {
		t.Errorf("%+v", own)
	}
	if !(own.Spread.P95 <= 1.02) || !(ref.Spread.P95 >= own.Spread.P95+0.02) {
		t.Errorf("spread p95: session %.4f, reference %.4f", own.Spread.P95, ref.Spread.P95)
	}
	n := 0
	for _, b := range own.Buckets {
		n += b.Shapes
	}
	if n != len(few) {
		t.Errorf("the buckets hold %d of %d shapes", n, len(few))
	}
	if !(own.Rate > 0) || !(own.Busy > 0 && own.Busy <= 1.02) || !(ref.Busy <= 1.02) {
		t.Errorf("rate %v, busy %v and %v", own.Rate, own.Busy, ref.Busy)
	}
	var text bytes.Buffer
	if err := rep.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"recovered", "reference", "cases/s", "over 5 ms", "0 to 0.005 ms"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, text.String())
		}
	}
}

func TestMisses(t *testing.T) {
	shapes := []Shape{{M: 1, N: 1, K: 1, PublishedMS: 1}, {M: 2, N: 1, K: 1, PublishedMS: 1}}
	run := func(a, b float64) Run {
		return Run{Protocol: Recovered, Rows: []measure.Measured{{Latency: a}, {Latency: b}}, Seconds: 0.01}
	}
	if m := NewReport("x", shapes, []Run{run(1, 1), run(1, 1)}).Misses(DefaultGoals()); len(m) != 0 {
		t.Errorf("a perfect run misses %q", m)
	}
	m := strings.Join(NewReport("x", shapes, []Run{run(1, 1.3), run(1.1, 1.2), {Protocol: Reference, Rows: []measure.Measured{{}, {}}}}).Misses(DefaultGoals()), "; ")
	for _, part := range []string{"spread p50", "spread p95", "1 ms: median", "1 ms: p95"} {
		if !strings.Contains(m, part) {
			t.Errorf("misses %q lack %q", m, part)
		}
	}
	long := []Shape{{M: 1, N: 1, K: 1, PublishedMS: 2}, {M: 2, N: 1, K: 1, PublishedMS: 0.02}}
	if m := NewReport("x", long, []Run{run(1, 1), run(1, 1)}).Misses(DefaultGoals()); len(m) != 0 {
		t.Errorf("rows that published ones cannot be compared with miss %q", m)
	}
	if m := NewReport("x", shapes, []Run{run(1, 0), run(1, 1)}).Misses(DefaultGoals()); len(m) == 0 || !strings.Contains(m[0], "1 shapes were not measured") {
		t.Errorf("a shape without a latency: %q", m)
	}
	if m := NewReport("x", shapes, []Run{run(1, 1)}).Misses(DefaultGoals()); len(m) == 0 {
		t.Error("one run passes")
	}
	if m := NewReport("x", shapes, nil).Misses(DefaultGoals()); len(m) == 0 {
		t.Error("no run passes")
	}
}

// TestShapesThatFailed: a report says what it lacks, and can be printed whatever that is.
func TestShapesThatFailed(t *testing.T) {
	shapes := []Shape{{M: 1, N: 1, K: 1}, {M: 2, N: 1, K: 1}}
	run := func(protocol string, latencies ...float64) Run {
		r := Run{Protocol: protocol, Rows: make([]measure.Measured, len(latencies)), Seconds: 1}
		for i, l := range latencies {
			if r.Rows[i].Latency = l; l == 0 {
				r.Errors = append(r.Errors, fmt.Sprintf("gemm m=%d: no memory", i+1))
			}
		}
		return r
	}
	rep := NewReport("fake", shapes, []Run{run(Sustained, 1, 1), run(Sustained, 1, 0), run(Recovered, 0, 0)})
	var text bytes.Buffer
	if err := rep.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"sustained: 1 of 2 shapes are left out", "the first error: gemm m=2: no memory\n", "recovered: 2 of 2 shapes are left out"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, text.String())
		}
	}
	if _, err := json.Marshal(rep); err != nil || strings.Contains(text.String(), "NaN") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// TestSettled holds the sustained point to what every shape takes alone.
func TestSettled(t *testing.T) {
	shapes, err := Sample(ByRank)
	if err != nil {
		t.Fatal(err)
	}
	// Light shapes are thousands of launches each: a few are enough.
	light := 0
	few := slices.DeleteFunc(Thin(shapes, 60), func(s Shape) bool {
		if !s.heavy() {
			light++
		}
		return !s.heavy() && light%10 != 0
	})
	var runs []Run
	for seed := uint64(1); seed <= 2; seed++ {
		for _, p := range []string{Sustained, Recovered, Settled} {
			b := fakeBench(t, seed, few)
			b.Tuning.CapWatts = 500
			r, err := b.Run(context.Background(), p, 0, seed)
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, *r)
		}
	}
	rep := NewReport("fake", few, runs)
	by := map[string]Summary{}
	for _, s := range rep.Protocols {
		by[s.Protocol] = s
		if s.Errors > 0 {
			t.Errorf("%+v", s)
		}
	}
	if s, r := by[Sustained].Heavy, by[Recovered].Heavy; !(s.P50 >= 0.98 && s.P50 <= 1.02) || !(s.P5 >= 0.94) || !(s.P95 <= 1.04) || !(r.P5 <= s.P5-0.05) {
		t.Errorf("against the shapes alone: sustained %+v, recovered %+v", s, r)
	}
	var text bytes.Buffer
	if err := rep.Text(&text); err != nil || !strings.Contains(text.String(), "vs settled from 0.03 ms p5") || !strings.Contains(text.String(), "settled against itself, one half of its 2 orders") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if f := rep.Floor; f == nil || f.Orders != 2 || !(f.Heavy.P5 >= 0.9) || !(f.Heavy.P95 <= 1.1) || f.Light.P50 == 0 {
		t.Errorf("the truth against itself: %+v", f)
	}
	if s := by[Sustained]; !(s.Light.P50 >= 0.97 && s.Light.P50 <= 1.03) {
		t.Errorf("lighter shapes: %+v", s.Light)
	}
}

// TestSettledOrders runs the lighter shapes in the first orders only, and takes
// the mean over those that had a shape.
func TestSettledOrders(t *testing.T) {
	shapes := []Shape{{M: 64, N: 1024, K: 1024, PublishedMS: 0.005}, {M: 4096, N: 4096, K: 4096, PublishedMS: 0.2}, {M: 4096, N: 8192, K: 4096, PublishedMS: 0.4}}
	b := fakeBench(t, 1, shapes)
	var trace bytes.Buffer
	w := NewTraceWriter(&trace)
	var runs []Run
	for seed := uint64(1); seed <= 3; seed++ {
		b.Trace = func(i int, v measure.Visit) {
			w.Add(Traced{Protocol: Settled, Run: len(runs), Index: i, Shape: shapes[i], Visit: v})
		}
		r, err := b.Run(context.Background(), Settled, 0, seed)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, *r)
	}
	for i, r := range runs {
		if light := r.Rows[0].Latency > 0; light != (i < lightOrders) || !(r.Rows[1].Latency > 0) {
			t.Errorf("order %d: %+v", i, r.Rows)
		}
	}
	runs[0].Rows[0].Latency, runs[1].Rows[0].Latency = 1, 3
	if got := settledLatencies(shapes, runs)[0]; got != 2 {
		t.Errorf("the mean of 1 and 3 in two of three orders is %v", got)
	}
	if f := floor(shapes, runs[:1]); f != nil {
		t.Errorf("one order is compared with %+v", f)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.Trace = func(int, measure.Visit) { cancel() }
	if r, err := b.Run(ctx, Settled, 0, 9); err == nil || r.Visits != 1 || !(r.Rows[1].Latency+r.Rows[2].Latency > 0) {
		t.Errorf("interrupted behind the first shape: %v, %+v", err, r)
	}
	if s := NewReport("fake", shapes, runs).Protocols[0]; s.Errors != 0 || s.Runs != 3 {
		t.Errorf("%+v", s)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&trace).ReadAll()
	if err != nil || len(rows) != 1+8 || rows[1][0] != Settled || len(strings.Split(rows[1][14], ";")) < 20 {
		t.Errorf("%v: %d lines of trace: %.300v", err, len(rows), rows)
	}
}
