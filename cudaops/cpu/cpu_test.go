package cpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/proc"
)

func quickSettings() measure.Settings {
	s := measure.Defaults()
	s.MinSamples, s.MaxSamples, s.Passes, s.MaxPasses = 1, 1, 1, 1
	s.MinBlockSeconds = 1e-6
	return s
}

func newHost(t *testing.T, options map[string]any) *host {
	t.Helper()
	raw, err := json.Marshal(quickSettings())
	if err != nil {
		t.Fatal(err)
	}
	h := Host(worker.Init{Measure: raw, Options: options}).(*host)
	if _, err := h.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestGemmAgreesWithNaiveReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	shapes := [][3]int{{1, 1, 1}, {1, 17, 300}, {5, 3, 64}, {130, 70, 65}}
	for range 5 {
		shapes = append(shapes, [3]int{1 + rng.IntN(80), 1 + rng.IntN(80), 1 + rng.IntN(200)})
	}
	e := &env{settings: quickSettings(), clock: measure.NewSystemClock()}
	for _, s := range shapes {
		m, n, k := s[0], s[1], s[2]
		for _, dtype := range []string{"float64", "float32"} {
			kern, err := gemmKernel(e, dtype, m, n, k, 1+m%3)
			if err != nil {
				t.Fatal(err)
			}
			kern.run()
			at := func(i int) float64 { return e.f64.mem[i] }
			eps := 1e-12
			if dtype == "float32" {
				at = func(i int) float64 { return float64(e.f32.mem[i]) }
				eps = 1e-4
			}
			for row := range m {
				for col := range n {
					want := 0.0
					for i := range k {
						want += at(row*k+i) * at(m*k+col*k+i)
					}
					if got := at(m*k + n*k + row*n + col); !(math.Abs(got-want) <= eps*float64(k)) {
						t.Fatalf("%s %dx%dx%d: y[%d,%d] is %v, want %v", dtype, m, n, k, row, col, got, want)
					}
				}
			}
			if kern.flops != 2*float64(m)*float64(n)*float64(k) {
				t.Errorf("flops %v", kern.flops)
			}
		}
	}
}

func TestMemoryAgreesWithNaiveReference(t *testing.T) {
	want := map[string]func(a, b float64) float64{
		"copy":  func(a, _ float64) float64 { return a },
		"scale": func(a, _ float64) float64 { return streamScalar * a },
		"add":   func(a, b float64) float64 { return a + b },
		"triad": func(a, b float64) float64 { return a + streamScalar*b },
	}
	arrays := map[string]float64{"copy": 2, "scale": 2, "add": 3, "triad": 3}
	for name, f := range want {
		for _, threads := range []int{1, 3} {
			e := &env{}
			const n = 1003
			kern, err := memoryKernel(e, name, 8*n, threads)
			if err != nil {
				t.Fatal(err)
			}
			kern.run()
			for i := range n {
				a, b, c := e.f64.mem[i], e.f64.mem[n+i], e.f64.mem[2*n+i]
				if !(math.Abs(c-f(a, b)) <= 1e-15*math.Abs(c)) {
					t.Fatalf("%s with %d threads: element %d is %v, want %v", name, threads, i, c, f(a, b))
				}
			}
			if kern.bytes != arrays[name]*8*n {
				t.Errorf("%s: %v bytes", name, kern.bytes)
			}
		}
	}
}

func TestRows(t *testing.T) {
	h := newHost(t, map[string]any{"synthetic": true})
	for _, c := range []struct{ op, params, source, rate string }{
		{"gemm", `{"gemm_dtype":"float32","m":32,"n":16,"k":8}`, "gonum.Sgemm", "gflop_per_s"},
		{"gemm", `{"gemm_dtype":"float64","m":32,"n":16,"k":8}`, "gonum.Dgemm", "gflop_per_s"},
		{"memory", `{"kernel":"triad","size_bytes":8192}`, "floats.AddScaledTo", "gb_per_s"},
	} {
		rows, err := h.run(t.Context(), worker.Case{Op: c.op, Params: json.RawMessage(c.params)})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %v, %v", c.params, rows, err)
		}
		r := rows[0]
		if r["kernel_source"] != c.source || !(r["latency"].(float64) > 0) || !(r["bytes"].(float64) > 0) ||
			!(r[c.rate].(float64) > 0) {
			t.Errorf("%s: %v", c.params, r)
		}
		if r["threads"] != 1 {
			t.Errorf("%s: %v threads", c.params, r["threads"])
		}
	}
}

func TestBadCases(t *testing.T) {
	h := newHost(t, nil)
	for _, c := range []struct{ op, params, class, text string }{
		{"conv", `{}`, worker.ClassUnsupportedConfig, `no op "conv"; it has gemm, memory`},
		{"synthetic", `{}`, worker.ClassUnsupportedConfig, `no op "synthetic"`},
		{"gemm", `{"gemm_dtype":"fp8","m":1,"n":1,"k":1}`, worker.ClassUnsupportedConfig, "float32, float64"},
		{"gemm", `{"gemm_dtype":"float32","m":1,"n":1}`, worker.ClassCollectorBug, `"k" is missing`},
		{"gemm", `{"gemm_dtype":"float32","m":1.5,"n":1,"k":1}`, worker.ClassCollectorBug, "whole number"},
		{"gemm", `{"gemm_dtype":"float64","m":1099511627776,"n":1099511627776,"k":1}`, worker.ClassResourceIssue,
			"do not fit"},
		{"gemm", `{"gemm_dtype":"float64","m":1000000,"n":1000000,"k":1}`, worker.ClassResourceIssue, "available"},
		{"gemm", `[1]`, worker.ClassCollectorBug, "no JSON object"},
		{"memory", `{"kernel":"copy","size_bytes":12}`, worker.ClassUnsupportedConfig, "multiple of 8"},
		{"gemm", `{"gemm_dtype":"float32","m":1,"n":1,"k":1,"threads":5000}`, worker.ClassUnsupportedConfig, "1024 at most"},
		{"memory", `{"kernel":"copy","size_bytes":16,"threads":9}`, worker.ClassUnsupportedConfig, "9 threads"},
	} {
		_, err := h.run(t.Context(), worker.Case{Op: c.op, Params: json.RawMessage(c.params)})
		fe, ok := errors.AsType[*worker.Failure](err)
		if !ok || fe.Class != c.class || !strings.Contains(fe.Message, c.text) {
			t.Errorf("%s %s gave %v, want %s with %q", c.op, c.params, err, c.class, c.text)
		}
	}
}

func TestHello(t *testing.T) {
	h := newHost(t, map[string]any{"synthetic": true, "window": 4.0})
	hello, err := h.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hello.Version, "gonum-") || hello.Framework != "CPU" || hello.Device == "" ||
		hello.Window != 4 {
		t.Errorf("%+v", hello)
	}
	if got := strings.Join(hello.Ops, " "); got != "gemm memory synthetic" {
		t.Errorf("ops %q", got)
	}
	bad := Host(worker.Init{Measure: json.RawMessage(`{"min_sample":1}`)})
	if _, err := bad.Hello(t.Context()); err == nil || !strings.Contains(err.Error(), "min_sample") {
		t.Errorf("an unknown setting gave %v", err)
	}
	bad = Host(worker.Init{Options: map[string]any{"framewrok": "CPU"}})
	if _, err := bad.Hello(t.Context()); err == nil || !strings.Contains(err.Error(), `no option "framewrok"`) {
		t.Errorf("an unknown option gave %v", err)
	}
}

func TestModelName(t *testing.T) {
	text := "processor\t: 0\nvendor_id\t: X\nmodel name\t: Fast  CPU @ 3 GHz\n\nprocessor\t: 1\nmodel name\t: other\n"
	if got := modelName(text); got != "Fast CPU @ 3 GHz" {
		t.Errorf("got %q", got)
	}
	if got := modelName("processor : 0\nCPU implementer : 0x41\n"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestSyntheticIsAFunctionOfTheCase(t *testing.T) {
	h := newHost(t, map[string]any{"synthetic": true})
	run := func(params, sweep string) []worker.Row {
		rows, err := h.run(t.Context(), worker.Case{Op: "synthetic", Params: json.RawMessage(params),
			Sweep: json.RawMessage(sweep), Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	if a, b := run(`{"m":1,"n":2}`, ""), run(`{"n":2,"m":1}`, ""); a[0]["latency"] != b[0]["latency"] {
		t.Error("the order of parameters changes the latency")
	}
	swept := run(`{"m":1}`, `[{"n":2},{"n":3}]`)
	if len(swept) != 2 || swept[0]["latency"] != run(`{"m":1,"n":2}`, "")[0]["latency"] ||
		fmt.Sprint(swept[1]["n"]) != "3" {
		t.Errorf("sweep gave %v", swept)
	}
	seen := map[any]bool{}
	for m := range 500 {
		l := run(fmt.Sprintf(`{"m":%d}`, m), "")[0]["latency"].(float64)
		if !(l >= 0.001 && l <= 10) {
			t.Fatalf("latency %v", l)
		}
		seen[l] = true
	}
	if len(seen) < 490 {
		t.Errorf("500 cases have only %d latencies", len(seen))
	}
	if _, err := h.run(t.Context(), worker.Case{Op: "synthetic",
		Params: json.RawMessage(`{"fault":"transient","healthy":2}`), Attempt: 1}); err == nil {
		t.Error("the first attempt passed")
	}
	if _, err := h.run(t.Context(), worker.Case{Op: "synthetic",
		Params: json.RawMessage(`{"fault":"transient","healthy":2}`), Attempt: 2}); err != nil {
		t.Errorf("the second attempt failed: %v", err)
	}
}

// TestSyntheticWaitsForAFile checks that a case that waits for a file ends as soon as the file exists and
// not before, and that a cancelled one ends at once.
func TestSyntheticWaitsForAFile(t *testing.T) {
	t.Parallel()
	h := newHost(t, map[string]any{"synthetic": true})
	path := filepath.Join(t.TempDir(), "go")
	waits := worker.Case{Op: "synthetic", Params: json.RawMessage(fmt.Sprintf(`{"wait_for":%q}`, path)), Attempt: 1}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.run(given, waits); !errors.Is(err, context.Canceled) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := h.run(t.Context(), waits); err != nil {
		t.Errorf("with the file: %v", err)
	}
	waits.Params = json.RawMessage(fmt.Sprintf(`{"wait_for":%q}`, path+"/below"))
	if _, err := h.run(t.Context(), waits); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a path that can never be there: %v", err)
	}
}

// TestTeam checks that each part runs once on a separate thread, and that the caller's thread is unpinned
// afterwards.
func TestTeam(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // the thread ends with the goroutine
	before, err := proc.CPUs()
	if err != nil {
		t.Skipf("threads are not kept in place here: %v", err)
	}
	for shift := range 3 {
		team := assemble(3, shift)
		var ran [3]atomic.Int32
		for range 100 {
			team.run(func(i int) {
				ran[i].Add(1)
				if at, err := proc.CPUs(); err != nil || len(at) != 1 || at[0] != before[(shift+i)%len(before)] {
					t.Errorf("part %d with shift %d runs on %v: %v", i, shift, at, err)
				}
			})
		}
		team.dismiss()
		for i := range ran {
			if n := ran[i].Load(); n != 100 {
				t.Errorf("part %d ran %d times", i, n)
			}
		}
		if after, err := proc.CPUs(); err != nil || !slices.Equal(after, before) {
			t.Errorf("on %v afterwards, %v before: %v", after, before, err)
		}
	}
}

// TestCasesAreVisitedInTurn opens three cases and checks that none is finished before each has been
// visited.
func TestCasesAreVisitedInTurn(t *testing.T) {
	t.Parallel()
	s := quickSettings()
	s.Passes, s.MaxPasses = 2, 2
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	h := Host(worker.Init{Measure: raw})
	if hello, err := h.Hello(t.Context()); err != nil || hello.Window != window {
		t.Fatalf("%+v, %v", hello, err)
	}
	in := make(chan worker.Case, 3)
	for i := range 3 {
		in <- worker.Case{Seq: int64(i), Op: "gemm",
			Params: json.RawMessage(fmt.Sprintf(`{"gemm_dtype":"float32","m":%d,"n":16,"k":8}`, 8<<i))}
	}
	close(in)
	var out emitted
	if err := h.Serve(t.Context(), in, &out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(out.seen, " "); got != "start0 start1 start2 start0 row0 start1 row1 start2 row2" {
		t.Error(got)
	}
	for _, row := range out.rows {
		if row["passes"] != 2 || row["threads"] != 1 || !(row["gflop_per_s"].(float64) > 0) {
			t.Errorf("%v", row)
		}
	}
}

// emitted records the messages of a host.
type emitted struct {
	worker.Emitter
	seen []string
	rows []worker.Row
}

func (e *emitted) Start(seq int64) { e.seen = append(e.seen, fmt.Sprint("start", seq)) }

func (e *emitted) Result(seq int64, rows []worker.Row, seconds float64) {
	e.seen, e.rows = append(e.seen, fmt.Sprint("row", seq)), append(e.rows, rows...)
	if seconds <= 0 {
		e.seen = append(e.seen, "without time")
	}
}

func (e *emitted) Error(seq int64, f worker.Failure) {
	e.seen = append(e.seen, fmt.Sprint("error", seq, f.Message))
}

func BenchmarkGemm(b *testing.B) {
	for _, n := range []int{64, 512} {
		for _, dtype := range []string{"float32", "float64"} {
			b.Run(fmt.Sprintf("%s/%d", dtype, n), func(b *testing.B) {
				e := &env{}
				k, err := gemmKernel(e, dtype, n, n, n, 1)
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if _, err := k.Block(context.Background(), 1); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(k.flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
