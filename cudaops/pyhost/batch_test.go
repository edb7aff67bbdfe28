package pyhost_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aicplan/cudaops/instrument"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

// fakeOps are op functions for the GPU in virtual time.
const fakeOps = `
import os

import torch
from torch._dynamo.callback import callback_handler

tuned = []

def compiled(us, bench, swallows=False):
    """Runs code that is tuned to the first case that it is compiled for."""
    def fn():
        if not tuned:
            callback_handler.run_start_callbacks(None)
            tuned.append(us)
        torch.kernel(us * 1e-6)
    try:
        got = bench(fn)
    except BaseException:
        if swallows:
            return []
        raise
    folder = os.path.basename(os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""))
    return dict(got, kernel_source="tuned to %d us in %s" % (tuned[0], folder))

def attaches(us, bench):
    bench.attach("note.txt", "from %d us" % us)
    return compiled(us, bench)

def once_more(us, bench):
    """Compiles in a visit."""
    calls = []
    def fn():
        calls.append(1)
        if len(calls) == 9:
            callback_handler.run_start_callbacks(None)
        torch.kernel(us * 1e-6)
    return bench(fn, graph="off", kernel_source="fake")

def fatal_below(us, bench, least=0):
    def fn():
        if not tuned:
            callback_handler.run_start_callbacks(None)
        torch.kernel(us * 1e-6, 100.0, "CUDA error: an illegal memory access was encountered" if us < least else "")
    return bench(fn, kernel_source="fake")

def plain(us, watts, bench, mb=1, graph="prefer", points=1, fail="", behind=""):
    memory = torch.Memory(mb << 20)
    if fail == "raise":
        raise ValueError("this case is wrong")
    if fail == "memory":
        raise MemoryError("the host has none left")
    if fail == "sticky":
        torch.kernel(us * 1e-6, watts, "CUDA error: an illegal memory access was encountered")
        torch.cuda.synchronize()
    rows = []
    with torch.inference_mode():
        for point in range(points):
            got = bench(lambda: torch.kernel(us * 1e-6 * (point + 1), watts), graph=graph, kernel_source="fake")
            assert torch.mode.inference
            rows.append(dict(got, point=point, seen=torch.gpu.peak >> 20))
    if behind == "raise":
        raise ValueError("wrong behind its measurement")
    del memory
    return rows

def eager(us, bench, settle=0.0, protocol=None):
    return bench(lambda: torch.kernel(us * 1e-6), graph="off", settle=settle, protocol=protocol, kernel_source="fake")

def cold(us, bench):
    return bench(lambda: torch.kernel(us * 1e-6), evict=True, kernel_source="fake")

def breaks_late(us, bench):
    def fn():
        torch.kernel(us * 1e-6)
        if torch.gpu.capturing is not None:
            torch.gpu.capturing.work.append(torch.break_late)
    return bench(fn, kernel_source="fake")

def burst_breaks(us, bench):
    calls = []
    def fn():
        calls.append(1)
        torch.kernel(us * 1e-6, 100.0, "CUDA error: an illegal memory access was encountered" if len(calls) > 6 else "")
    return bench(fn, graph="off", kernel_source="fake")
`

// batch is a worker on the GPU in virtual time, whose messages a test reads in order.
type batch struct {
	*client
	in       *instrument.Instrument
	visits   []measure.Visit
	commands []map[string]any // of the instrument
	mu       sync.Mutex
	clock    *measuretest.Clock
}

// fakeGPU starts a worker on the GPU in virtual time.
func fakeGPU(t *testing.T, settings m, gpu string) *batch {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ops.py"), []byte(fakeOps), 0o644); err != nil {
		t.Fatal(err)
	}
	return fakeWorker(t, settings, gpu, hostSettings{Package: "torch", Path: []string{dir}}, nil)
}

func fakeWorker(t *testing.T, settings m, gpu string, host hostSettings, ops any) *batch {
	t.Helper()
	b := &batch{clock: &measuretest.Clock{}}
	b.in = instrument.New(instrument.Options{
		Clock:  b.clock,
		Device: func(string) (nvml.Device, error) { return nil, nvml.ErrNotBuilt },
		Trace: func(v measure.Visit) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.visits = append(b.visits, v)
		},
	})
	b.join(t, settings, gpu, host, ops, func(send func(any) error) worker.Measurer {
		return b.in.Join(func(msg any) error {
			var c map[string]any
			if err := json.Unmarshal(raw(t, msg), &c); err != nil {
				return err
			}
			b.mu.Lock()
			b.commands = append(b.commands, c)
			b.mu.Unlock()
			return send(msg)
		})
	})
	return b
}

// began reads the commands that have begun cases, and reports for each case whether it has the device to itself.
func (b *batch) began() (alone []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.commands {
		if c["what"] == "next" {
			alone = append(alone, c["alone"] == true)
		}
	}
	return alone
}

// join starts the worker of a batch.
func (b *batch) join(t *testing.T, settings m, gpu string, host hostSettings, ops any,
	join func(send func(any) error) worker.Measurer) {
	t.Helper()
	c := spawn(t, "PYTHONPATH="+testdata(t, "fakegpu"), "FAKE_GPU="+gpu)
	b.client = c
	c.meter.Close()
	c.meter = &advancing{join(c.write), b.clock}
	init := worker.Init{
		Type: worker.TypeInit, Protocol: worker.ProtocolVersion, Kind: "python", Slot: "w0", Device: 0, Seed: 1,
		Measure: raw(t, settings), Options: host.Options(m{"window": 64}),
	}
	if ops != nil {
		init.Ops = raw(t, ops)
	}
	c.send(init)
	var hello worker.Hello
	c.next(worker.TypeHello, &hello)
	if hello.Error != nil {
		t.Fatalf("%s\n%s", hello.Error.Message, hello.Error.Traceback)
	}
}

// advancing advances a clock by what the worker's bursts took.
type advancing struct {
	worker.Measurer
	clock *measuretest.Clock
}

func (a *advancing) Receive(line []byte) (bool, error) {
	var msg struct {
		Blocks [][3]float64 `json:"blocks"`
	}
	if err := json.Unmarshal(line, &msg); err != nil {
		return false, err
	}
	for _, b := range msg.Blocks {
		a.clock.Advance(time.Duration(b[0] * 1e9))
	}
	return a.Measurer.Receive(line)
}

// ends reads the ends of so many cases, in the order in which they come.
func (b *batch) ends(n int) (order []int64, answers map[int64]answer) {
	b.t.Helper()
	answers = map[int64]answer{}
	for len(order) < n {
		var end struct {
			worker.CaseResult
			worker.Failure
		}
		typ := b.next(worker.TypeResult+"|"+worker.TypeError, &end)
		a := answer{CaseResult: end.CaseResult}
		if typ == worker.TypeError {
			a.Failure = &end.Failure
		}
		order, answers[end.Seq] = append(order, end.Seq), a
	}
	return order, answers
}

func latencyOf(row worker.Row) float64 { f, _ := row["latency"].(float64); return f }

func TestCasesArePreparedInTheCallsOfOthers(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	var seqs []int64
	for i := range 6 {
		seqs = append(seqs, b.submit("plain", m{"us": 20 * (i + 1), "watts": 100}, nil))
	}
	order, answers := b.ends(6)
	for i, seq := range seqs {
		a := answers[seq]
		if a.Failure != nil {
			t.Fatalf("%s: %s\n%s", a.Failure.Exception, a.Failure.Message, a.Failure.Traceback)
		}
		row := a.Rows[0]
		want := 0.02 * float64(i+1)
		if got := latencyOf(row); math.Abs(got/want-1) > 1e-3 {
			t.Errorf("case %d takes %v ms, want %v", i, got, want)
		}
		if row["used_cuda_graph"] != true || row["operating_point"] != "sustained" || row["samples"].(float64) < 3 ||
			math.Abs(row["sm_clock_mhz"].(float64)/1980-1) > 1e-3 {
			t.Errorf("case %d: %v", i, row)
		}
		if row["seen"].(float64) != 6 {
			t.Errorf("case %d: %v MB were taken at once, want all six cases'", i, row["seen"])
		}
	}
	if order[0] != seqs[5] || order[5] != seqs[0] {
		t.Errorf("cases end in the order %v; the last one prepared returns first", order)
	}
}

// TestCodeIsCompiledForTheExampleFirst: code that torch compiles for any shape is tuned to the first one, which must
// not be that of the case that a worker happens to get first.
func TestCodeIsCompiledForTheExampleFirst(t *testing.T) {
	t.Setenv("TORCHINDUCTOR_CACHE_DIR", "/compiled")
	for name, first := range map[string]m{"plain": {"us": 10}, "swallows": {"us": 10, "swallows": true}} {
		t.Run(name, func(t *testing.T) {
			b := fakeGPU(t, m{}, `{}`)
			example := &worker.Example{ID: "the-example", Params: raw(t, m{"us": 20})}
			for _, params := range []m{first, {"us": 40}} {
				b.seq++
				b.send(worker.Case{Type: worker.TypeCase, Seq: b.seq, ID: fmt.Sprint("case-", b.seq), Op: "compiled",
					Params: raw(t, params), Example: example})
			}
			_, answers := b.ends(2)
			for i, want := range []float64{0.01, 0.04} {
				a := answers[int64(i+1)]
				if a.Failure != nil {
					t.Fatalf("%s: %s\n%s", a.Failure.Exception, a.Failure.Message, a.Failure.Traceback)
				}
				row := a.Rows[0]
				if got := latencyOf(row); math.Abs(got/want-1) > 1e-3 ||
					row["kernel_source"] != "tuned to 20 us in example_the-example" {
					t.Errorf("case %d takes %v ms, want %v; %v", i, got, want, row["kernel_source"])
				}
			}
		})
	}

	b := fakeGPU(t, m{}, `{}`)
	b.send(worker.Case{Type: worker.TypeCase, Seq: 1, ID: "example", Op: "compiled", Params: raw(t, m{}),
		Sweep:   raw(t, []m{{"us": 10}}),
		Example: &worker.Example{ID: "example", Params: raw(t, m{}), Sweep: raw(t, []m{{"us": 20}, {"us": 10}})}})
	_, answers := b.ends(1)
	if a := answers[1]; a.Failure != nil || a.Rows[0]["kernel_source"] != "tuned to 20 us in example_example" {
		t.Errorf("the example without its first point: %+v", a)
	}

	b = fakeGPU(t, m{}, `{}`)
	b.send(worker.Case{Type: worker.TypeCase, Seq: 1, ID: "case", Op: "compiled", Params: raw(t, m{"us": 10}),
		Example: &worker.Example{ID: "broken", Params: raw(t, m{"unknown": 1})}})
	_, answers = b.ends(1)
	if a := answers[1]; a.Failure != nil || a.Rows[0]["kernel_source"] != "tuned to 10 us in example_broken" {
		t.Errorf("a case whose example cannot run: %+v", a)
	}
}

// TestRunsForAnExampleLeaveNothingBehind: what a case has done before torch compiled, and its example, is undone.
func TestRunsForAnExampleLeaveNothingBehind(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	example := &worker.Example{ID: "the-example", Params: raw(t, m{"us": 20})}
	b.send(worker.Case{Type: worker.TypeCase, Seq: 1, ID: "case", Op: "attaches", Params: raw(t, m{"us": 10}), Example: example})
	_, answers := b.ends(1)
	a := answers[1]
	if a.Failure != nil {
		t.Fatalf("%s\n%s", a.Failure.Message, a.Failure.Traceback)
	}
	if len(a.Attachments) != 1 || string(a.Attachments[0].Data) != "from 10 us" {
		t.Errorf("attachments %+v", a.Attachments)
	}
}

// TestCodeIsCompiledInAVisit: the instrument gets its reply.
func TestCodeIsCompiledInAVisit(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	b.send(worker.Case{Type: worker.TypeCase, Seq: 1, ID: "case", Op: "once_more", Params: raw(t, m{"us": 10}),
		Example: &worker.Example{ID: "the-example", Params: raw(t, m{"us": 20})}})
	_, answers := b.ends(1)
	if a := answers[1]; a.Failure != nil || math.Abs(latencyOf(a.Rows[0])/0.01-1) > 1e-3 {
		t.Errorf("%+v", a)
	}
}

// TestExampleLosesTheDevice: the engine learns that the example has failed and not the case.
func TestExampleLosesTheDevice(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	b.send(worker.Case{Type: worker.TypeCase, Seq: 1, ID: "case", Op: "fatal_below", Params: raw(t, m{"us": 20, "least": 15}),
		Example: &worker.Example{ID: "the-example", Params: raw(t, m{"us": 10, "least": 15})}})
	var s worker.Start
	for !s.Example {
		b.next(worker.TypeStart, &s)
	}
	var end worker.Failure
	if typ := b.next(worker.TypeStart+"|"+worker.TypeError, &end); typ != worker.TypeError || !end.Fatal {
		t.Errorf("%s %+v follows the start of the example", typ, end)
	}
}

// lateOps load and compile code at their first case.
var lateOps = map[string]string{
	"late": `
def late(us, bench):
    from torch._dynamo.callback import callback_handler
    import os, torch
    tuned = os.tuned = getattr(os, "tuned", [])
    def fn():
        if not tuned:
            callback_handler.run_start_callbacks(None)
            tuned.append(us)
        torch.kernel(us * 1e-6)
    return dict(bench(fn), kernel_source="tuned to %d us" % tuned[0])
`,
	"chosen": `
codes = {}

def chosen(us, bench):
    """Leaves the choice to torch: code for its own shape, then code for any shape, tuned to the second one."""
    from torch._dynamo import config
    import torch
    def fn():
        general = config.automatic_dynamic_shapes and codes
        if us not in codes and len(codes) < config.recompile_limit:
            codes[us] = codes.get("any", us) if general else us
            if general:
                codes["any"] = codes[us]
        torch.kernel(us * 1e-6)
    return dict(bench(fn), kernel_source="tuned to %s us" % codes.get(us))
`,
	"imports": `
from torch._dynamo.callback import callback_handler
callback_handler.run_start_callbacks(None)

import os, torch

def imports(us, bench):
    folder = os.path.basename(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    return dict(bench(lambda: torch.kernel(us * 1e-6)), kernel_source=folder)
`,
	"outer": `
import os, torch
import torch._dynamo.callback

def outer(us, bench):
    bench(lambda: torch.kernel(us * 1e-6))
    folder = os.path.basename(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    return dict(bench(lambda: torch.kernel(us * 1e-6)), kernel_source=folder)
`,
}

// TestCodeIsCompiledInTheCallOfAnotherCase: a case whose module compiles at import neither fails nor stops the case in
// whose call it begins, and that one finds its own folder of compiled code again. torch is followed even if an op is
// the first one to import its compiler.
func TestCodeIsCompiledInTheCallOfAnotherCase(t *testing.T) {
	t.Setenv("TORCHINDUCTOR_CACHE_DIR", "/compiled")
	dir, ops := t.TempDir(), m{}
	for name, src := range lateOps {
		path := filepath.Join(dir, name+".py")
		if err := os.WriteFile(path, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
		ops[name] = m{"file": path}
	}
	b := fakeWorker(t, m{}, `{}`, hostSettings{Package: "torch"}, ops)
	for i, op := range []string{"outer", "imports"} {
		b.send(worker.Case{Type: worker.TypeCase, Seq: int64(i + 1), ID: op, Op: op, Params: raw(t, m{"us": 10}),
			Example: &worker.Example{ID: "of-" + op, Params: raw(t, m{"us": 20})}})
	}
	_, answers := b.ends(2)
	for i, op := range []string{"outer", "imports"} {
		if a := answers[int64(i+1)]; a.Failure != nil || a.Rows[0]["kernel_source"] != "example_of-"+op {
			t.Errorf("%s: %+v", op, a)
		}
	}

	b = fakeWorker(t, m{}, `{}`, hostSettings{Package: "torch"}, m{"late": ops["late"]})
	b.send(worker.Case{Type: worker.TypeCase, Seq: 1, ID: "late", Op: "late", Params: raw(t, m{"us": 10}),
		Example: &worker.Example{ID: "of-late", Params: raw(t, m{"us": 20})}})
	_, answers = b.ends(1)
	if a := answers[1]; a.Failure != nil || a.Rows[0]["kernel_source"] != "tuned to 20 us" {
		t.Errorf("late: %+v", a)
	}
}

// TestCodeIsCompiledForEachShape: a row is the same whatever its worker has measured before.
func TestCodeIsCompiledForEachShape(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chosen.py")
	if err := os.WriteFile(path, []byte(lateOps["chosen"]), 0o644); err != nil {
		t.Fatal(err)
	}
	b := fakeWorker(t, m{}, `{}`, hostSettings{Package: "torch"}, m{"chosen": m{"file": path}})
	const cases = 12 // more than torch compiles for one function by default
	for us := 1; us <= cases; us++ {
		b.submit("chosen", m{"us": 10 * us}, nil)
	}
	_, answers := b.ends(cases)
	for us := 1; us <= cases; us++ {
		want := fmt.Sprintf("tuned to %d us", 10*us)
		if a := answers[int64(us)]; a.Failure != nil || a.Rows[0]["kernel_source"] != want {
			t.Errorf("%s: %+v", want, a)
		}
	}
}

func TestCappedCasesOfABatchAreOrderedByTheirDroop(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	watts := []int{700, 100, 500, 900, 420}
	for _, w := range watts {
		b.submit("plain", m{"us": 100, "watts": w}, nil)
	}
	_, answers := b.ends(len(watts))
	for i, w := range watts {
		row := answers[int64(i+1)].Rows[0]
		mhz := 1980 * math.Min(1, math.Pow(300/float64(w), 0.4))
		if got := latencyOf(row); math.Abs(got/(0.1*1980/mhz)-1) > 0.01 {
			t.Errorf("%d W: %v ms, want %v", w, got, 0.1*1980/mhz)
		}
		if got := row["sm_clock_mhz"].(float64); math.Abs(got/mhz-1) > 0.01 { // the device's clock does not move
			t.Errorf("%d W: %v MHz, want %v", w, got, mhz)
		}
		if held := row["clock_slope"] != nil; held != (mhz < 0.88*1980) {
			t.Errorf("%d W: among the capped ones: %v", w, held)
		}
	}
	last, visits := 0.0, 0
	for _, v := range b.visits {
		if !v.Hot || v.Discarded {
			continue
		}
		if v.Blocks[0].ReadyMHz != 0 {
			t.Errorf("visit %d of a batch waited until the device was ready, so that it rested", visits)
		}
		mhz := v.Blocks[0].ClockMHz
		if mhz < last-1 {
			t.Errorf("visit %d is at %v MHz, behind %v: the hungriest come first", visits, mhz, last)
		}
		last = mhz
		visits++
	}
	if visits != 4 {
		t.Errorf("%d visits of four capped cases", visits)
	}
}

func TestBatchIsBoundedByMemory(t *testing.T) {
	b := fakeGPU(t, m{}, `{"memory": 104857600}`)
	for range 12 {
		b.submit("plain", m{"us": 20, "watts": 100, "mb": 20}, nil)
	}
	_, answers := b.ends(12)
	for seq, a := range answers {
		if a.Failure != nil {
			t.Fatalf("case %d: %s", seq, a.Failure.Message)
		}
		if seen := a.Rows[0]["seen"].(float64); seen < 40 || seen > 100 {
			t.Errorf("case %d: %v MB were taken at once", seq, seen)
		}
	}
}

func TestCasesThatRunOutOfMemoryBesideOthersAreTriedAtTheEnd(t *testing.T) {
	b := fakeGPU(t, m{}, `{"memory": 104857600}`)
	sizes := []int{5, 5, 5, 95, 5, 120, 5, 5}
	for _, mb := range sizes {
		b.submit("plain", m{"us": 20, "watts": 100, "mb": mb}, nil)
	}
	order, answers := b.ends(len(sizes))
	if last := order[len(order)-2:]; !slices.Contains(last, 4) || !slices.Contains(last, 6) {
		t.Errorf("cases end in the order %v; want the large ones, 4 and 6, at the end", order)
	}
	for i, mb := range sizes {
		a := answers[int64(i+1)]
		if fails := a.Failure != nil; fails != (mb > 100) {
			t.Errorf("case of %d MB: %+v", mb, a.Failure)
		}
		if mb > 100 && a.Failure != nil && a.Failure.Class != worker.ClassResourceIssue {
			t.Errorf("case of %d MB: class %s", mb, a.Failure.Class)
		}
	}
}

func TestCaseThatRanOutOfMemoryBeginsTheNextBatch(t *testing.T) {
	b := fakeGPU(t, m{}, `{"memory": 104857600}`)
	sizes := append([]int{5, 5, 5, 5, 5, 30, 30, 30}, slices.Repeat([]int{5}, 40)...)
	for _, mb := range sizes {
		b.submit("plain", m{"us": 20, "watts": 100, "mb": mb}, nil)
	}
	order, answers := b.ends(len(sizes))
	for seq, a := range answers {
		if a.Failure != nil {
			t.Errorf("case %d: %s", seq, a.Failure.Message)
		}
	}
	if at := slices.Index(order, 8); at > 30 {
		t.Errorf("the case that ran out of memory ends as number %d of %d", at+1, len(order))
	}
}

// skipping is a collector that goes on if a point does not fit.
const skipping = `
import torch
from helper import benchmark_with_power, log_perf

def run(sizes, strict, perf_filename, device):
    errors = 0
    for mb in sizes:
        try:
            memory = torch.Memory(mb << 20)
            with benchmark_with_power(device=device, kernel_func=lambda kept=memory: torch.kernel(20e-6)) as got:
                log_perf(item_list=[{"latency": got["latency_ms"], "mb": mb}], perf_filename=perf_filename)
        except Exception:
            errors += 1
        memory = None
    if errors and strict:
        raise RuntimeError("%d errors" % errors)
`

func TestPointsThatACollectorSkipsForLackOfMemoryAreTriedAgain(t *testing.T) {
	for _, strict := range []bool{false, true} {
		b := hosting(t, skipping, `{"memory": 104857600}`, "sizes", "strict")
		sizes := [][]int{{5}, {5, 5}, {5, 95}, {120, 5}, {5}}
		for _, mb := range sizes {
			b.submit("x", m{"sizes": mb, "strict": strict}, nil)
		}
		_, answers := b.ends(len(sizes))
		for i, mb := range sizes {
			a, want := answers[int64(i+1)], len(mb)
			if mb[0] > 100 {
				want--
			}
			if fails := a.Failure != nil; len(a.Rows) != want || fails != (strict && mb[0] > 100) {
				t.Errorf("strict %v, points of %v MB: %d rows, %+v", strict, mb, len(a.Rows), a.Failure)
			}
		}
	}
}

// growing is a collector whose kernels return tensors of more and more memory.
const growing = `
import torch
from helper import benchmark_with_power, log_perf

def run(sizes, perf_filename, device):
    errors = 0
    for mb in sizes:
        try:
            with benchmark_with_power(device=device, kernel_func=lambda: (torch.Memory(mb << 20), torch.kernel(20e-3))) as got:
                log_perf(item_list=[{"latency": got["latency_ms"], "mb": mb}], perf_filename=perf_filename)
        except torch.OutOfMemoryError:
            errors += 1
    if errors:
        raise RuntimeError("%d errors" % errors)
`

func TestPointGetsTheMemoryOfEarlierGraphs(t *testing.T) {
	b := hosting(t, growing, `{"memory": 104857600}`, "sizes")
	b.submit("x", m{"sizes": []int{10, 20, 40, 80}}, nil)
	_, answers := b.ends(1)
	if a := answers[1]; a.Failure != nil || len(a.Rows) != 4 {
		t.Fatalf("%d rows, %+v", len(a.Rows), a.Failure)
	}
}

func TestCaseThatFillsTheMemoryHasTheDeviceToItself(t *testing.T) {
	for _, fills := range []bool{false, true} {
		op := m{"module": "collector.vllm.some", "run": "run", "perf_filename": "x_perf.txt", "args": []string{"us", "points", "restart"}}
		if fills {
			op["fills_memory"] = true
		}
		b := hostingOp(t, restarting, `{}`, op)
		for i := range 3 {
			b.submit("x", m{"us": 20 * (i + 1), "points": 1, "restart": false}, nil)
		}
		_, answers := b.ends(3)
		for seq, a := range answers {
			if a.Failure != nil || len(a.Rows) != 1 {
				t.Errorf("case %d: %d rows, %+v", seq, len(a.Rows), a.Failure)
			}
		}
		if alone := b.began(); len(alone) != 3 || slices.Contains(alone, !fills) {
			t.Errorf("fills_memory %v: cases begin with the device to themselves: %v", fills, alone)
		}
	}
}

func TestFailingCaseLeavesItsBatchAlone(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	b.submit("plain", m{"us": 20, "watts": 100}, nil)
	b.submit("plain", m{"us": 20, "watts": 100, "fail": "raise"}, nil)
	b.submit("plain", m{"us": 20, "watts": 100, "behind": "raise"}, nil)
	b.submit("plain", m{"us": 30, "watts": 100}, nil)
	_, answers := b.ends(4)
	for seq, bad := range map[int64]string{1: "", 2: "this case is wrong", 3: "wrong behind its measurement", 4: ""} {
		f := answers[seq].Failure
		if (f != nil) != (bad != "") || f != nil && f.Message != bad {
			t.Errorf("case %d: %+v", seq, f)
		}
	}
}

func TestCaseThatBreaksTheDeviceIsTheOneThatFails(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	b.submit("plain", m{"us": 20, "watts": 100}, nil)
	b.submit("plain", m{"us": 20, "watts": 100, "fail": "sticky"}, nil)
	b.submit("plain", m{"us": 20, "watts": 100}, nil)
	order, answers := b.ends(1)
	if f := answers[2].Failure; order[0] != 2 || f == nil || !f.Fatal {
		t.Errorf("first end is of case %v: %+v", order, answers)
	}
}

func TestSweepInOneCallTakesItsPointsInTurn(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	b.submit("plain", m{"us": 20, "watts": 100, "points": 3}, nil)
	b.submit("plain", m{"us": 50, "watts": 100, "points": 2}, nil)
	_, answers := b.ends(2)
	for seq, us := range map[int64]float64{1: 20, 2: 50} {
		for i, row := range answers[seq].Rows {
			if want := us * float64(i+1) / 1e3; math.Abs(latencyOf(row)/want-1) > 1e-3 {
				t.Errorf("case %d, point %d: %v ms, want %v", seq, i, latencyOf(row), want)
			}
		}
	}
}

func TestEagerCaseIsTheInnermostOne(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	for _, graph := range []string{"prefer", "off", "prefer", "prefer"} {
		b.submit("plain", m{"us": 20, "watts": 100, "graph": graph}, nil)
	}
	_, answers := b.ends(4)
	for i, graph := range []bool{true, false, true, true} {
		a := answers[int64(i+1)]
		if a.Failure != nil || a.Rows[0]["used_cuda_graph"] != graph {
			t.Fatalf("case %d: %+v", i, a)
		}
	}
	// The two behind it were not prepared while it waited.
	if seen := answers[2].Rows[0]["seen"].(float64); seen != 2 {
		t.Errorf("%v cases were prepared when the eager one was measured", seen)
	}
}

// TestEagerRowsReportLaunches: nothing is queued ahead of the executions of the reference protocol.
func TestEagerRowsReportLaunches(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	for _, how := range []m{{"us": 2000}, {"us": 2000, "settle": 0.05}, {"us": 20, "protocol": "reference"}} {
		b.submit("eager", how, nil)
	}
	b.submit("plain", m{"us": 2000, "watts": 100}, nil)
	_, answers := b.ends(4)
	for i, want := range []any{false, false, true, nil} {
		if a := answers[int64(i+1)]; a.Failure != nil || a.Rows[0]["launch_bound"] != want {
			t.Errorf("case %d: %+v, want launch_bound %v", i, a, want)
		}
	}
}

func TestColdRowsComeFromMemory(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	for _, us := range []int{20, 300} {
		b.submit("cold", m{"us": us}, nil)
	}
	_, answers := b.ends(2)
	row, long := answers[1].Rows[0], answers[2].Rows[0]
	if row["cache"] != "cold" || math.Abs(latencyOf(row)/0.02-1) > 0.01 || row["latency_hot"] == nil {
		t.Errorf("a short case: %v", row)
	}
	if long["cache"] != "hot" || long["latency_hot"] != nil {
		t.Errorf("a long case: %v", long)
	}
}

func TestDeviceWithoutCompilerIsMeasuredWithoutClocks(t *testing.T) {
	b := fakeGPU(t, m{}, `{"compiles": false}`)
	b.submit("plain", m{"us": 100, "watts": 500}, nil)
	_, answers := b.ends(1)
	row := answers[1].Rows[0]
	want := 0.1 / math.Pow(300./500, 0.4)
	if row["sm_clock_mhz"] != nil || math.Abs(latencyOf(row)/want-1) > 1e-3 {
		t.Errorf("without clocks: %v", row)
	}
}

func TestBurstThatFailsFailsItsCase(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	b.submit("burst_breaks", m{"us": 20}, nil)
	_, answers := b.ends(1)
	if f := answers[1].Failure; f == nil || !f.Fatal || !strings.Contains(f.Message, "illegal memory access") {
		t.Errorf("%+v", answers[1])
	}
}

// TestFailureIsThatOfItsVisit: a visit breaks the context while other cases are prepared.
func TestFailureIsThatOfItsVisit(t *testing.T) {
	for bad := range 5 {
		b := fakeGPU(t, m{}, fmt.Sprintf(`{"log": %q}`, filepath.Join(t.TempDir(), "log")))
		for i := range 5 {
			if i == bad {
				b.submit("breaks_late", m{"us": 20}, nil)
			} else {
				b.submit("plain", m{"us": 20 * (i + 1), "watts": 100}, nil)
			}
		}
		order, answers := b.ends(1)
		if f := answers[order[0]].Failure; order[0] != int64(bad+1) || f == nil || !f.Fatal {
			t.Errorf("case %d breaks the context, case %d fails: %+v", bad+1, order[0], f)
		}
	}
}

// failing is a collector of three points, one of which breaks as it is measured.
const failing = `
import torch
from helper import benchmark_with_power, log_perf

def run(us, bad, perf_filename, device):
    for point in range(3):
        def kernel(point=point):
            torch.kernel(us * 1e-6)
            if point == bad and torch.gpu.capturing is not None:
                torch.gpu.capturing.work.append(torch.refuse)
        with benchmark_with_power(device=device, kernel_func=kernel) as got:
            log_perf(item_list=[{"latency": got["latency_ms"], "point": point}], perf_filename=perf_filename)
`

func TestPointThatFailsLeavesTheOthersOfItsSweep(t *testing.T) {
	b := hosting(t, failing, `{}`, "us", "bad")
	b.submit("x", m{"us": 20, "bad": 1}, nil)
	b.submit("x", m{"us": 30, "bad": -1}, nil)
	_, answers := b.ends(2)
	if a := answers[1]; a.Failure == nil || a.Failure.Message != "refused" || len(a.Rows) != 2 ||
		a.Rows[0]["point"] != 0.0 || a.Rows[1]["point"] != 2.0 {
		t.Errorf("the case with the point that fails: %+v\n%+v", a, a.Failure)
	}
	if a := answers[2]; a.Failure != nil || len(a.Rows) != 3 {
		t.Errorf("the other case: %+v", a)
	}
}

// eagerly is a collector whose kernel cannot be captured, or is not.
const eagerly = `
import torch
from helper import benchmark_with_power, log_perf

def run(us, points, graph, perf_filename, device):
    for point in range(points):
        memory = torch.Memory(1 << 20)
        def kernel():
            torch.kernel(us * 1e-6)
            if graph == "fails":
                torch.cuda.synchronize()
        with benchmark_with_power(device=device, kernel_func=kernel, allow_graph_fail=True, use_cuda_graph=graph != "off") as got:
            log_perf(item_list=[{"latency": got["latency_ms"], "point": point}], perf_filename=perf_filename)
`

// TestEagerCaseBesideCapturedOnes: the memory of the captured ones is given back while the eager one waits, or
// after its capture failed.
func TestEagerCaseBesideCapturedOnes(t *testing.T) {
	for _, graph := range []string{"off", "fails"} {
		b := hosting(t, eagerly, `{}`, "us", "points", "graph")
		for i, graph := range []string{"works", "works", graph, "works", "works", graph, "works"} {
			b.submit("x", m{"us": 20 * (i + 1), "points": 1 + i%2, "graph": graph}, nil)
		}
		_, answers := b.ends(7)
		for seq, a := range answers {
			if a.Failure != nil || len(a.Rows) != 2-int(seq)%2 {
				t.Fatalf("a graph that %s: case %d: %+v", graph, seq, a)
			}
			for _, row := range a.Rows {
				want, captured := 0.02*float64(seq), seq != 3 && seq != 6
				if math.Abs(latencyOf(row)/want-1) > 1e-3 || row["used_cuda_graph"] != captured {
					t.Errorf("a graph that %s: case %d: %v", graph, seq, row)
				}
			}
		}
	}
}

// restarting is a collector that asks for a fresh process after one of its cases.
const restarting = `
import torch
from helper import WORKER_RESTART, benchmark_with_power, log_perf

def run(us, points, restart, perf_filename, device):
    for point in range(points):
        with benchmark_with_power(device=device, kernel_func=lambda: torch.kernel(us * 1e-6 * (point + 1))) as got:
            log_perf(item_list=[{"latency": got["latency_ms"], "point": point}], perf_filename=perf_filename)
    return WORKER_RESTART if restart else None
`

// hosting is a worker with one op x, which a collector with this code measures.
func hosting(t *testing.T, code, gpu string, args ...string) *batch {
	t.Helper()
	return hostingOp(t, code, gpu, m{"module": "collector.vllm.some", "run": "run", "perf_filename": "x_perf.txt", "args": args})
}

func hostingOp(t *testing.T, code, gpu string, op m) *batch {
	t.Helper()
	return hostingOps(t, code, gpu, m{"x": op})
}

func hostingOps(t *testing.T, code, gpu string, ops m) *batch {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "collector", "vllm"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "collector", "vllm", "some.py"), []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	return fakeWorker(t, m{}, gpu, hostSettings{Package: "torch", CollectorRoot: root}, ops)
}

func TestRestartOfOneCaseWaitsForItsBatch(t *testing.T) {
	b := hosting(t, restarting, `{}`, "us", "points", "restart")
	for i := range 4 {
		b.submit("x", m{"us": 20 * (i + 1), "points": 1 + i%2, "restart": i == 2}, nil)
	}
	// The fourth case is not begun any more.
	_, answers := b.ends(3)
	for i := range 3 {
		a := answers[int64(i+1)]
		if a.Failure != nil {
			t.Fatalf("case %d: %s\n%s", i, a.Failure.Message, a.Failure.Traceback)
		}
		if len(a.Rows) != 1+i%2 {
			t.Errorf("case %d has rows %v", i, a.Rows)
		}
		for point, row := range a.Rows {
			if want := 0.02 * float64(i+1) * float64(point+1); math.Abs(latencyOf(row)/want-1) > 1e-3 {
				t.Errorf("case %d, point %d: %v ms, want %v", i, point, latencyOf(row), want)
			}
		}
	}
	if bye := b.bye(); !strings.Contains(bye.Restart, "fresh process") {
		t.Errorf("bye %+v", bye)
	}
}

// sweeping is a collector that measures many points in one call, gives their memory
// back, and writes what it has done with their latencies.
const sweeping = `
import torch
from helper import benchmark_with_power, log_perf

framework = {}

def run(points, form, mb, perf_filename, device):
    total = 0.0
    for point in range(points):
        memory = torch.Memory(mb << 20)
        if form == "workspace":
            framework["workspace"], memory = memory, None
        us = 20 * (point + 1)
        kernel = lambda: torch.kernel(us * 1e-6)
        with benchmark_with_power(device=device, kernel_func=kernel) as got:
            latency = got["latency_ms"]
        memory = None
        if form == "quotient":
            latency = latency / 5
        elif form == "text":
            latency = "%.4f" % (latency / 5)
        elif form == "float":
            latency = float(latency)
        elif form == "offset":
            latency = 2 * (latency - 0.001) + total
        elif form == "sum":
            total = total + latency
            latency = round(total, 6)
        elif form == "branch":
            latency = max(0.0, latency - 0.001)
        elif form == "wrong":
            latency = latency if latency < 0.0201 else -1.0
        elif form == "power":
            latency = latency ** 2
        log_perf(item_list=[{"latency": latency, "point": point, "seen": torch.gpu.peak >> 20}], perf_filename=perf_filename)
`

func TestSweepPointsOfOneCallAreMeasuredTogether(t *testing.T) {
	of := map[string]func(p float64) float64{
		"plain": func(p float64) float64 { return 0.02 * p },
		// The framework replaces its workspace, which earlier graphs read.
		"workspace": func(p float64) float64 { return 0.02 * p },
		"quotient":  func(p float64) float64 { return 0.004 * p },
		"text":      func(p float64) float64 { return 0.004 * p },
		"float":     func(p float64) float64 { return 0.02 * p },
		"offset":    func(p float64) float64 { return 0.04*p - 0.002 },
		"sum":       func(p float64) float64 { return 0.01 * p * (p + 1) },
		"branch":    func(p float64) float64 { return 0.02*p - 0.001 },
		"power":     func(p float64) float64 { return 0.0004 * p * p },
	}
	for form, want := range of {
		t.Run(form, func(t *testing.T) {
			b := hosting(t, sweeping, `{}`, "points", "form", "mb")
			b.submit("x", m{"points": 5, "form": form, "mb": 2}, nil)
			b.submit("x", m{"points": 3, "form": form, "mb": 2}, nil)
			_, answers := b.ends(2)
			for seq, points := range map[int64]int{1: 5, 2: 3} {
				a := answers[seq]
				if a.Failure != nil || len(a.Rows) != points {
					t.Fatalf("case %d: %+v", seq, a)
				}
				for i, row := range a.Rows {
					if l := want(float64(i + 1)); math.Abs(latencyOf(row)/l-1) > 2e-3 || row["used_cuda_graph"] != true {
						t.Errorf("case %d, point %d: %v, want %v ms", seq, i, row, l)
					}
				}
			}
			// What a collector gives back is not used again while a graph may read it.
			if seen := answers[1].Rows[4]["seen"].(float64); form != "power" && seen != 10 {
				t.Errorf("%v MB were taken at once, want those of five points", seen)
			}
		})
	}
}

func TestSweepWaitsForMemory(t *testing.T) {
	b := hosting(t, sweeping, `{"memory": 104857600}`, "points", "form", "mb")
	b.submit("x", m{"points": 12, "form": "plain", "mb": 20}, nil)
	_, answers := b.ends(1)
	if a := answers[1]; a.Failure != nil || len(a.Rows) != 12 {
		t.Fatalf("%+v", a)
	}
	if seen := answers[1].Rows[11]["seen"].(float64); seen < 40 || seen > 100 {
		t.Errorf("%v MB were taken at once", seen)
	}
}

func TestBranchOnAnEstimateIsTakenAgainWithTheNumber(t *testing.T) {
	// The first launches are slow, so the estimate is above the limit that the number is below.
	b := hosting(t, sweeping, `{"slow": 3}`, "points", "form", "mb")
	b.submit("x", m{"points": 1, "form": "wrong", "mb": 1}, nil)
	_, answers := b.ends(1)
	if a := answers[1]; a.Failure != nil || math.Abs(latencyOf(a.Rows[0])/0.02-1) > 2e-3 {
		t.Fatalf("%+v", a)
	}
}

// sized is a collector whose work depends on the free memory. It writes how many calls it has begun in.
const sized = `
import threading
import torch
from helper import benchmark_with_power, log_perf

calls = []

def run(points, form, perf_filename, device):
    calls.append(form)
    try:
        for point in range(points):
            sweep(point, form, perf_filename, device)
    finally:
        calls.pop()

def sweep(point, form, perf_filename, device):
    free, total = 0, 1
    try:
        if form == "thread":
            thread = threading.Thread(target=lambda: read.append(torch.cuda.mem_get_info(device)))
            read = []
            thread.start()
            thread.join()
            free, total = read[0] if read else (free, total)
        elif form != "other":
            free, total = torch.cuda.mem_get_info(device)
    except BaseException:
        if form == "raises":
            raise RuntimeError("no free memory")
        if form != "catches":
            raise
    memory = torch.Memory(5 << 20)
    row = {"point": point, "share": free / total, "calls": len(calls)}
    with benchmark_with_power(device=device, kernel_func=lambda kept=memory: torch.kernel(20e-6)) as got:
        log_perf(item_list=[dict(row, latency=got["latency_ms"])], perf_filename=perf_filename)
`

func TestCollectorThatReadsTheFreeMemoryHasTheDeviceToItself(t *testing.T) {
	for _, form := range []string{"plain", "catches", "raises", "thread"} {
		op := m{"module": "collector.vllm.some", "run": "run", "perf_filename": "x_perf.txt", "args": []string{"points", "form"}}
		b := hostingOps(t, sized, `{}`, m{"x": op, "other": op})
		for range 2 {
			b.submit("x", m{"points": 3, "form": form}, nil)
			b.submit("other", m{"points": 3, "form": "other"}, nil)
		}
		_, answers := b.ends(4)
		for seq, a := range answers {
			if a.Failure != nil || len(a.Rows) != 3 {
				t.Fatalf("%s, case %d: %d rows, %+v", form, seq, len(a.Rows), a.Failure)
			}
			for point, row := range a.Rows {
				if row["share"] != float64(seq%2) {
					t.Errorf("%s, case %d, point %d: the collector saw %v of the memory", form, seq, point, row["share"])
				}
				if row["calls"] != 1.0 {
					t.Errorf("%s, case %d has begun in the call of a case that reads the free memory", form, seq)
				}
			}
		}
	}
}

// refilling is a collector that uses a tensor again for its next point.
const refilling = `
import torch
from helper import benchmark_with_power, log_perf

begun = []

def run(points, form, perf_filename, device):
    held = {"tuple": (torch.Tensor(0.0),), "dict": {0: torch.Tensor(0.0)}}.get(form)
    operand = torch.Tensor(0.0) if held is None else None
    for point in range(points):
        (operand or held[0]).fill_(20e-6 * (point + 1))
        begun.append(point)
        with benchmark_with_power(device=device, kernel_func=lambda: torch.kernel(operand or held[0])) as got:
            log_perf(item_list=[{"latency": got["latency_ms"], "point": point, "begun": len(begun)}], perf_filename=perf_filename)
`

func TestTensorThatTheNextPointChanges(t *testing.T) {
	for _, form := range []string{"local", "tuple", "dict"} {
		b := hosting(t, refilling, `{}`, "points", "form")
		for range 2 {
			b.submit("x", m{"points": 4, "form": form}, nil)
		}
		_, answers := b.ends(2)
		for seq, a := range answers {
			if a.Failure != nil || len(a.Rows) != 4 {
				t.Fatalf("%s, case %d: %+v", form, seq, a)
			}
			for point, row := range a.Rows {
				if want := 0.02 * float64(point+1); math.Abs(latencyOf(row)/want-1) > 2e-3 {
					t.Errorf("%s, case %d, point %d: %v ms, want %v", form, seq, point, latencyOf(row), want)
				}
				if begun := row["begun"].(float64); begun > 12 {
					t.Errorf("%s: %v points have begun, want 2 of each call that changes its tensor, and all points once", form, begun)
				}
			}
		}
	}
}

// estimating is a collector that makes other numbers of two latencies. The first kernels are slow, so the estimates of
// both are equal.
const estimating = `
import torch
from helper import benchmark_with_power, log_perf

runs = []

def run(form, perf_filename, device):
    runs.append(form)

    def measured(us):
        operand = torch.Tensor(us * 1e-6)
        with benchmark_with_power(device=device, kernel_func=lambda: torch.kernel(operand)) as got:
            return got["latency_ms"]

    def log(latency):
        log_perf(item_list=[{"latency": latency, "runs": len(runs)}], perf_filename=perf_filename)

    if form in ("floats", "texts", "short texts"):
        for latency in [float(measured(20)), float(measured(25))]:
            log(latency if form == "floats" else ("%.6f" if form == "texts" else "%.4f") % latency)
    elif form == "factor":
        latency = float(measured(20))
        log(latency)
        log(latency * 3.7)
    elif form == "difference":
        log(abs(measured(20) - measured(50)))
    elif form == "file":
        with open(perf_filename, "a") as f:
            f.write("op_name,latency\nx,%s\n" % measured(20))
    elif form == "limit":
        latency = measured(20)
        if latency > 0.021:
            raise ValueError("slow")
        log(latency)
    elif form == "late":
        latency = float(measured(20))
        log(latency * 3.7)
        raise ValueError("late")
    elif form == "late change":
        operand = torch.Tensor(20e-6)
        with benchmark_with_power(device=device, kernel_func=lambda: torch.kernel(operand)) as got:
            log(got["latency_ms"])
        operand.fill_(50e-6)
        raise ValueError("late")
`

func TestNumbersThatAreMadeOfEstimates(t *testing.T) {
	for form, want := range map[string][]float64{
		"floats": {0.02, 0.025}, "texts": {0.02, 0.025}, "short texts": {0.02, 0.025}, "factor": {0.02, 0.074},
		"difference": {0.03}, "file": {0.02}, "limit": {0.02}, "late": {0.074}, "late change": {0.02},
	} {
		b := hosting(t, estimating, `{"slow": 3}`, "form")
		b.submit("x", m{"form": form}, nil)
		_, answers := b.ends(1)
		a := answers[1]
		if fails := a.Failure != nil; fails != strings.HasPrefix(form, "late") || len(a.Rows) != len(want) {
			t.Errorf("%s: %+v %+v", form, a, a.Failure)
			continue
		}
		for i, row := range a.Rows {
			if math.Abs(latencyOf(row)/want[i]-1) > 2e-3 {
				t.Errorf("%s: row %d has %v ms, want %v", form, i, latencyOf(row), want[i])
			}
			if (form == "floats" || form == "texts") && row["runs"] != 1.0 {
				t.Errorf("%s: %v runs, want one", form, row["runs"])
			}
		}
	}
}

// TestCaseThatBeginsAgainReportsIt: the engine drops the rows that it has, which the case sends again.
func TestCaseThatBeginsAgainReportsIt(t *testing.T) {
	changes := hosting(t, refilling, `{}`, "points", "form")
	changes.submit("x", m{"points": 2, "form": "local"}, nil)
	lacks := hosting(t, skipping, `{"memory": 104857600}`, "sizes", "strict")
	lacks.submit("x", m{"sizes": []int{5, 120}, "strict": true}, nil)
	for name, b := range map[string]*batch{"changes a tensor": changes, "lacks memory": lacks} {
		if b.ends(1); b.again == 0 {
			t.Errorf("no start of a case that %s reports that it begins again", name)
		}
	}
}

// watched notes which workers of a device are at work, and finds bursts beside it.
type watched struct {
	worker.Measurer
	mu    *sync.Mutex
	busy  map[*watched]bool
	wrong *int
}

func (w *watched) Receive(line []byte) (bool, error) {
	var msg struct {
		What string `json:"what"`
	}
	if err := json.Unmarshal(line, &msg); err != nil {
		return false, err
	}
	w.mu.Lock()
	if msg.What == "ready" {
		w.busy[w] = false
	}
	for other, busy := range w.busy {
		if msg.What == "reply" && busy && other != w {
			*w.wrong++
		}
	}
	w.mu.Unlock()
	return w.Measurer.Receive(line)
}

func TestWorkersOfOneDeviceTakeTurns(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ops.py"), []byte(fakeOps), 0o644); err != nil {
		t.Fatal(err)
	}
	host := hostSettings{Package: "torch", Path: []string{dir}}
	clock := &measuretest.Clock{}
	in := instrument.New(instrument.Options{
		Clock:  clock,
		Device: func(string) (nvml.Device, error) { return nil, nvml.ErrNotBuilt },
	})
	var mu sync.Mutex
	wrong, all := 0, map[*watched]bool{}
	var workers []*batch
	for range 3 {
		b := &batch{in: in, clock: clock}
		b.join(t, m{}, `{}`, host, nil, func(send func(any) error) worker.Measurer {
			w := &watched{mu: &mu, busy: all, wrong: &wrong}
			w.Measurer = in.Join(func(msg any) error {
				data, err := json.Marshal(msg)
				if err == nil && (strings.Contains(string(data), `"what":"next"`) ||
					strings.Contains(string(data), `"what":"done"`)) {
					mu.Lock()
					all[w] = true
					mu.Unlock()
				}
				return send(msg)
			})
			return w
		})
		workers = append(workers, b)
	}
	// A worker is heard until all are done: the others wait for what it does.
	var measured, wg sync.WaitGroup
	for i, b := range workers {
		for k := range 5 {
			b.submit("plain", m{"us": 20 * (i + k + 1), "watts": 100 + 200*k}, nil)
		}
		measured.Add(1)
		wg.Go(func() {
			_, answers := b.ends(5)
			measured.Done()
			b.bye()
			for seq, a := range answers {
				if a.Failure != nil {
					t.Errorf("worker %d, case %d: %s", i, seq, a.Failure.Message)
				}
			}
		})
	}
	measured.Wait()
	for _, b := range workers {
		b.send(map[string]string{"type": worker.TypeShutdown})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if wrong > 0 {
		t.Errorf("%d bursts ran while another worker was at work", wrong)
	}
}

func TestCaseThatLacksMemoryOfTheHostFails(t *testing.T) {
	b := fakeGPU(t, m{}, `{}`)
	b.submit("plain", m{"us": 20, "watts": 100, "fail": "memory"}, nil)
	b.submit("plain", m{"us": 20, "watts": 100}, nil)
	b.submit("plain", m{"us": 20, "watts": 100, "fail": "memory"}, nil)
	_, answers := b.ends(3)
	for seq, bad := range map[int64]bool{1: true, 2: false, 3: true} {
		f := answers[seq].Failure
		if (f != nil) != bad || f != nil && f.Class != worker.ClassResourceIssue {
			t.Errorf("case %d: %+v", seq, f)
		}
	}
}

// TestStatusThatCrossesACommand: a worker reports that it waits once more when a case arrives. If a command is
// under way to it then, it begins a case, and the instrument must neither send it another command nor measure.
func TestStatusThatCrossesACommand(t *testing.T) {
	t.Parallel()
	sent := make(chan []byte, 8)
	w := instrument.New(instrument.Options{}).Join(func(msg any) error {
		sent <- raw(t, msg)
		return nil
	})
	defer w.Close()
	ready := func(commands int) (waits bool) {
		t.Helper()
		waits, err := w.Receive(raw(t, m{"type": worker.TypeMeasure, "what": "ready", "waiting": 1, "commands": commands}))
		if err != nil {
			t.Fatal(err)
		}
		return waits
	}
	next := func() bool { return bytes.Contains(<-sent, []byte(`"what":"next"`)) }
	if !ready(0) || !next() {
		t.Fatal("the worker does not begin its first case")
	}
	if ready(0) {
		t.Error("a worker counts as waiting that has a command under way")
	}
	if !ready(1) || !next() {
		t.Fatal("the worker does not begin its second case")
	}
	if len(sent) != 0 {
		t.Errorf("the worker got a further command: %s", <-sent)
	}
}
