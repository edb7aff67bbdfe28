package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/measure/measuretest"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

// bench is a host on a fake GPU.
type bench struct {
	t    *testing.T
	host *Host
	drv  *fakeDriver
	lt   *fakeBLAS
	rtc  *fakeCompiler
	nvml *cudatest.NVML
	emit *emitter
	seq  int64
	in   []worker.Case
}

func newBench(t *testing.T, init worker.Init) *bench {
	t.Helper()
	clock := &measuretest.Clock{}
	gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(1, 1)))
	drv := newFakeDriver(gpu, 2)
	smi := cudatest.H200(0)
	smi.Now = clock.Now
	b := &bench{
		t: t, drv: drv, lt: &fakeBLAS{Driver: drv}, rtc: &fakeCompiler{},
		nvml: &cudatest.NVML{Driver: "580.159.04", CUDA: 13000, GPUs: []*cudatest.GPU{smi, cudatest.H200(1)}},
		emit: &emitter{rows: map[int64]worker.Row{}, errs: map[int64]worker.Failure{}, starts: map[int64]int{},
			seconds: map[int64]float64{}},
	}
	if init.Options == nil {
		init.Options = map[string]any{"system": "h200_sxm"}
	}
	init.Kind = "cuda"
	if init.Measure == nil {
		init.Measure = json.RawMessage(`{"operating_point": "recovered"}`)
	}
	b.host = &Host{init: init, clock: clock,
		open: func(o OpenOptions) (*Device, error) {
			dev, err := Find(drv, o.Index, o.UUID)
			if err != nil {
				return nil, err
			}
			return NewDevice(Libraries{Driver: drv, Lt: b.lt, RTC: b.rtc}, dev, o)
		},
		openNVML: func() (nvml.API, error) { return b.nvml, nil },
	}
	return b
}

// device is the device of the bench's host, open.
func (b *bench) device() *Device {
	b.t.Helper()
	if _, err := b.host.Hello(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	return b.host.dev
}

func (b *bench) add(op string, params map[string]any) int64 {
	b.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	b.seq++
	b.in = append(b.in, worker.Case{Seq: b.seq, ID: fmt.Sprint(b.seq), Op: op, Params: raw})
	return b.seq
}

func (b *bench) gemm(typ string, m, n, k int) int64 {
	return b.add(OpGEMM, map[string]any{"gemm_dtype": typ, "m": m, "n": n, "k": k})
}

// serve greets and works through what was added.
func (b *bench) serve() error {
	b.t.Helper()
	if b.host.dev == nil {
		b.device()
	}
	in := make(chan worker.Case, len(b.in))
	for _, c := range b.in {
		in <- c
	}
	close(in)
	b.in = nil
	return b.host.Serve(context.Background(), in, b.emit)
}

func (b *bench) row(seq int64) worker.Row {
	b.t.Helper()
	r, ok := b.emit.rows[seq]
	if !ok {
		b.t.Fatalf("case %d has no row; its error: %+v", seq, b.emit.errs[seq])
	}
	return r
}

func (b *bench) failure(seq int64) worker.Failure {
	b.t.Helper()
	f, ok := b.emit.errs[seq]
	if !ok {
		b.t.Fatalf("case %d has no error; its row: %v", seq, b.emit.rows[seq])
	}
	return f
}

// noLeaks checks that only the arena is left on the device.
func (b *bench) noLeaks() {
	b.t.Helper()
	if err := b.host.dev.Close(); err != nil {
		b.t.Error(err)
	}
	if b.drv.Open != 0 || b.lt.Open.Load() != 0 {
		b.t.Errorf("%d graphs or allocations and %d products were not freed", b.drv.Open, b.lt.Open.Load())
	}
}

type emitter struct {
	mu      sync.Mutex
	rows    map[int64]worker.Row
	errs    map[int64]worker.Failure
	starts  map[int64]int
	seconds map[int64]float64
	logs    []string
}

func (e *emitter) Start(seq int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.starts[seq]++
}

func (e *emitter) Result(seq int64, rows []worker.Row, seconds float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, twice := e.rows[seq]; twice || len(rows) != 1 {
		panic(fmt.Sprintf("case %d ended twice or with %d rows", seq, len(rows)))
	}
	e.rows[seq], e.seconds[seq] = rows[0], seconds
}

func (e *emitter) Attach(int64, worker.Attachment) {}

func (e *emitter) Error(seq int64, f worker.Failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, twice := e.errs[seq]; twice {
		panic(fmt.Sprintf("case %d failed twice", seq))
	}
	e.errs[seq] = f
}

func (e *emitter) Log(level, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.logs = append(e.logs, level+": "+fmt.Sprintf(format, args...))
}
