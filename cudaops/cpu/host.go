// Package cpu measures ops on the machine's CPU: matrix products ("gemm") with OpenBLAS if it is
// installed, else with gonum, and streaming memory kernels ("memory"). The runtime option synthetic adds a
// deterministic op for tests of the engine.
package cpu

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// Framework is the framework label of rows of this runtime in perf files.
const Framework = "CPU"

// Host returns the worker host of the cpu runtime. Invalid options are reported by its Hello.
func Host(init worker.Init) worker.Host { return &host{init: init} }

// window is the number of cases that are visited in turn. Disturbances of a shared CPU last for seconds and
// are usually over at a case's next visit.
const window = 64

// Serve implements worker.Host. Cases of the op synthetic must end in order, so they are not visited in turn.
func (h *host) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	if h.synthetic {
		return (&worker.Sequential{Run: h.run}).Serve(ctx, in, out)
	}
	return (&worker.InTurn{Window: h.window(), Open: h.open}).Serve(ctx, in, out)
}

// Ops describes the ops of cpu runtimes.
func Ops() []worker.Op {
	return []worker.Op{worker.Describe("gemm", new(gemm)), worker.Describe("memory", new(memory)),
		{Name: "synthetic", Option: "synthetic"}}
}

// opener is an op with the parameters of a case. It prepares the case for its first visit.
type opener interface {
	open(e *env) (*visits, error)
}

// env is shared by the ops of one worker.
type env struct {
	settings measure.Settings
	clock    measure.Clock
	blas     *blas // computes products; nil means gonum
	pace     *pace
	f32      arena[float32]
	f64      arena[float64]
	leaked   [][]byte // memory leaked by the synthetic op
}

type host struct {
	init      worker.Init
	synthetic bool
	openCases *int // option window
	env       env
}

// Options returns the options of a runtime of kind cpu.
func Options() []worker.Option { return new(host).declare() }

func (h *host) declare() []worker.Option {
	return []worker.Option{
		{Name: "synthetic", Into: &h.synthetic, Default: false, NotInKey: true,
			Doc: "adds an op `synthetic` that measures nothing and takes its latency from the case"},
		{Name: "window", Into: &h.openCases, Min: 1, Max: 4096, NotInKey: true,
			DefaultDoc: fmt.Sprintf("%d, or 1 with `synthetic`", window),
			Doc:        "cases that a worker measures in turn"},
	}
}

// Hello implements worker.Host.
func (h *host) Hello(context.Context) (worker.Hello, error) {
	err := worker.Decode(h.declare(), h.init.Options)
	if err == nil {
		err = h.Configure(h.init)
	}
	if err != nil {
		return worker.Hello{}, worker.Failed(worker.ClassCollectorBug, "%v", err)
	}

	if !h.synthetic {
		h.env.blas, _ = systemBLAS() // gonum without one
	}

	// The version names the library, because it is not a version of aicplan.
	version := gonumVersion()
	name, products := "gonum-"+version, "gonum "+version
	if b := h.env.blas; b != nil {
		name, products = "openblas-"+b.version, b.about
	}

	hello := worker.Hello{
		Framework: Framework,
		Version:   name,
		Device:    DeviceName(),
		Window:    h.window(),
		Ops:       h.names(),
		Env: map[string]string{
			"blas":       products,
			"go":         runtime.Version(),
			"gonum":      version,
			"os":         runtime.GOOS + "/" + runtime.GOARCH,
			"cpus":       fmt.Sprint(runtime.NumCPU()),
			"gomaxprocs": fmt.Sprint(runtime.GOMAXPROCS(0)),
		},
	}

	if name, err := os.Hostname(); err == nil {
		hello.Env["hostname"] = name
	}

	return hello, nil
}

// window returns the number of cases that the worker has open at the same time.
func (h *host) window() int {
	switch {
	case h.openCases != nil:
		return *h.openCases
	case h.synthetic:
		return 1
	}
	return window
}

// names returns the names of the ops, sorted.
func (h *host) names() []string {
	names := []string{"gemm", "memory"}
	if h.synthetic {
		names = append(names, "synthetic")
	}
	return names
}

// Configure implements worker.Host. It keeps operands that are already filled.
func (h *host) Configure(init worker.Init) error {
	s, err := measure.ReadSettings(init.Measure)
	if err != nil {
		return err
	}

	h.env.settings = s
	h.env.clock = measure.NewSystemClock()
	h.env.f32.seed, h.env.f64.seed = uint64(s.Seed), uint64(s.Seed)

	return nil
}

// run measures one case completely.
func (h *host) run(ctx context.Context, c worker.Case) ([]worker.Row, error) {
	if h.synthetic && c.Op == "synthetic" {
		return runSynthetic(ctx, &h.env, c)
	}

	v, err := h.open(c)
	if err != nil {
		return nil, err
	}
	for {
		if rows, _, done, err := v.Visit(ctx); done || err != nil {
			return rows, err
		}
	}
}

// open prepares a case for its first visit. Errors have a failure class.
func (h *host) open(c worker.Case) (worker.Visitor, error) {
	var op opener
	switch c.Op {
	case "gemm":
		op = &gemm{Threads: 1}
	case "memory":
		op = &memory{Threads: 1}
	default:
		return nil, worker.Failed(worker.ClassUnsupportedConfig, "the cpu runtime has no op %q; it has %s", c.Op,
			strings.Join(h.names(), ", "))
	}

	if h.env.settings.Graph == measure.GraphRequire {
		return nil, worker.Failed(worker.ClassUnsupportedConfig, `graph = "require": there are no graphs on a CPU`)
	}

	if len(c.Sweep) > 0 {
		return nil, worker.Failed(worker.ClassUnsupportedConfig, "op %q of the cpu runtime has no sweep; make it an axis",
			c.Op)
	}

	p := worker.ParseParams(c)
	if p.Read(op); p.Err != nil {
		return nil, p.Err
	}
	return op.open(&h.env)
}

// gonumVersion returns the version of gonum from the build information of the binary. Test binaries do not contain it.
func gonumVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "gonum.org/v1/gonum" {
				return strings.TrimPrefix(d.Version, "v")
			}
		}
	}
	return "unknown"
}

// DeviceName returns the CPU's model name as reported by the kernel.
func DeviceName() string {
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := modelName(string(text)); name != "" {
			return name
		}
	}
	return runtime.GOARCH + " processor (model name not reported by " + runtime.GOOS + ")"
}

// modelName returns the first model name in /proc/cpuinfo, or "".
func modelName(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}
