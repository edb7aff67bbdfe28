package ops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

// Framework is the default framework label of rows in perf files. The version is that of
// cuBLASLt.
const Framework = "CUDA"

// New returns the worker host of runtimes of kind cuda. Its Hello reports what is missing on this
// machine.
func New(init worker.Init) worker.Host {
	return &Host{init: init, open: Open, openNVML: nvml.Open, clock: measure.NewSystemClock()}
}

// Host is the worker host of one GPU.
type Host struct {
	init     worker.Init
	open     func(OpenOptions) (*Device, error)
	openNVML func() (nvml.API, error)
	clock    measure.Clock

	options options
	set     settings
	dev     *Device
	nvml    nvml.Device // nil if NVML is not available
	nvmlErr error
	monitor *monitor
	warned  bool // about power that cannot be measured
	lastEnd time.Duration
	level   float64 // clock of the ready device in earlier sessions
}

var _ worker.Host = (*Host)(nil)

// Hello implements worker.Host. It opens the libraries and the device.
func (h *Host) Hello(context.Context) (worker.Hello, error) {
	bad := func(class string, err error) (worker.Hello, error) {
		return worker.Hello{}, worker.Failed(class, "%v", err)
	}

	var err error
	if h.options, err = parseOptions(h.init.Options); err != nil {
		return bad(worker.ClassCollectorBug, err)
	}

	if h.set, err = parseSettings(h.init); err != nil {
		return bad(worker.ClassCollectorBug, err)
	}

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h.dev, err = h.open(OpenOptions{Index: h.init.Device, UUID: h.init.UUID, Arena: h.options.arena})
	if err != nil {
		class := worker.ClassUnsupportedConfig
		if cuda.Busy(err) || errors.Is(err, errNoRoom) {
			class = worker.ClassResourceIssue
		}

		return bad(class, err)
	}

	h.dev.Peaks = h.options.peaks
	h.dev.Arena.SetSeed(uint64(h.set.measure.Seed) + 1)
	if api, err := h.openNVML(); err != nil {
		h.nvmlErr = err
	} else if h.nvml, h.nvmlErr = nvml.Find(api, h.dev.Info.UUID); h.nvmlErr == nil {
		h.monitor = newMonitor(h.nvml, h.clock.Now)
	}

	if h.dev.Peaks.Watts <= 0 && h.nvml != nil {
		if p, err := h.nvml.Power(); err == nil {
			h.dev.Peaks.Watts = p.Limit
		}
	}

	return worker.Hello{
		Framework: Framework, Version: h.version(), Device: h.dev.Info.Name, DeviceUUID: h.dev.Info.UUID,
		Window: h.options.Window, Ops: h.set.names(), Env: h.env(),
	}, nil
}

// version returns the version of cuBLASLt, or the CUDA version of the driver without it.
func (h *Host) version() string {
	if lt := h.dev.Lib.Lt; lt != nil {
		return cuda.BLASVersionText(lt.Version())
	}

	v, err := h.dev.Lib.Driver.Version()
	if err != nil {
		return "unknown"
	}

	return cuda.VersionText(v)
}

// env returns the environment that may affect the measured numbers.
func (h *Host) env() map[string]string {
	d := h.dev
	e := map[string]string{
		"gpu_uuid": d.Info.UUID, "gpu_pci": d.Info.PCI, "sm": strconv.Itoa(d.Info.SM()),
		"arena_gib": fmt.Sprintf("%.1f", float64(d.Arena.bytes)/(1<<30)),
	}

	if v, err := d.Lib.Driver.Version(); err == nil {
		e["cuda_driver"] = cuda.VersionText(v)
	}

	if lt := d.Lib.Lt; lt != nil {
		e["cublaslt"] = cuda.BLASVersionText(lt.Version())
	} else if d.Lib.LtErr != nil {
		e["cublaslt_missing"] = d.Lib.LtErr.Error()
	}

	if rtc := d.Lib.RTC; rtc != nil {
		major, minor := rtc.Version()
		e["nvrtc"] = fmt.Sprintf("%d.%d", major, minor)
	}

	for name, lib := range map[string]any{"cublaslt_path": d.Lib.Lt, "nvrtc_path": d.Lib.RTC,
		"cuda_driver_path": d.Lib.Driver} {
		if l, ok := lib.(interface{ Path() string }); ok {
			e[name] = l.Path()
		}
	}

	if name, err := os.Hostname(); err == nil {
		e["hostname"] = name
	}

	if h.nvml == nil {
		e["nvml_missing"] = h.nvmlErr.Error()
		return e
	}

	if c, err := h.nvml.Clocks(); err == nil {
		e["max_sm_clock_mhz"] = strconv.Itoa(c.MaxSM)
		e["mem_clock_mhz"] = strconv.Itoa(c.Memory)
	}

	if p, err := h.nvml.Power(); err == nil {
		e["power_limit_w"] = fmt.Sprintf("%g", p.Limit)
	}

	if ecc, err := h.nvml.ECC(); err == nil {
		e["ecc"] = strconv.FormatBool(ecc.Enabled)
	}

	if on, err := h.nvml.Persistence(); err == nil {
		e["persistence"] = strconv.FormatBool(on)
	}

	if api, err := h.openNVML(); err == nil {
		if v, err := api.DriverVersion(); err == nil {
			e["driver"] = v
		}
	}

	return e
}

// Configure implements worker.Host.
func (h *Host) Configure(init worker.Init) error {
	set, err := parseSettings(init)
	if err != nil {
		return err
	}

	h.set = set
	h.dev.Arena.SetSeed(uint64(set.measure.Seed) + 1)
	return nil
}

// Serve implements worker.Host.
func (h *Host) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	unbind, err := h.dev.Bind()
	if err != nil {
		return err
	}

	defer unbind()
	if h.monitor != nil {
		stop := make(chan struct{})
		defer close(stop)
		go h.monitor.run(stop)
	}

	if h.set.measure.Power && h.nvml == nil && !h.warned {
		h.warned = true
		out.Log("warn", "power is not measured: %v", h.nvmlErr)
	}

	h.lastEnd = h.clock.Now()
	if h.set.measure.Protocol == measure.ProtocolReference {
		err = h.serveReference(ctx, in, out)
	} else {
		err = h.serveSession(ctx, in, out)
	}

	if err != nil && ctx.Err() == nil && lost(err) {
		return &worker.RestartError{Reason: err.Error()}
	}

	return err
}

// lost reports whether an error means that the context is unusable.
func lost(err error) bool { return failureOf(err, false).Fatal }

// seconds returns the wall time since the previous case ended, but at most most if that is above
// 0. The sum over all cases is the time of the worker, although cases overlap.
func (h *Host) seconds(most time.Duration) float64 {
	s := h.clock.Now() - h.lastEnd
	if most > 0 {
		s = min(s, most)
	}

	h.lastEnd += s
	return max(s.Seconds(), 1e-9)
}

// serveReference measures one case after the other, as the collectors do.
func (h *Host) serveReference(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	for {
		c, ok := next(ctx, in)
		if !ok {
			return ctx.Err()
		}

		out.Start(c.Seq)
		begin := h.clock.Now()
		row, err := h.once(ctx, c, begin)
		switch {
		case err == nil:
			out.Result(c.Seq, []worker.Row{row}, h.seconds(0))
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		}

		f := failureOf(err, h.ownKernel(c))
		out.Error(c.Seq, f)
		if f.Fatal {
			return err
		}
	}
}

// next returns the next case. ok is false if there is none or ctx has ended.
func next(ctx context.Context, in <-chan worker.Case) (c worker.Case, ok bool) {
	select {
	case c, ok = <-in:
		return c, ok
	case <-ctx.Done():
		return c, false
	}
}

func (h *Host) once(ctx context.Context, c worker.Case, begin time.Duration) (row worker.Row, err error) {
	defer worker.Guard(&err)
	p, err := h.prepareCase(c)
	if err != nil {
		return nil, err
	}

	defer p.close()
	r, err := measure.Once(ctx, p.target.Replays(), h.clock, h.set.measure)
	if err != nil {
		return nil, err
	}

	if _, err := h.finish(ctx, p, &r); err != nil {
		return nil, err
	}

	return h.row(p, r, begin), nil
}

func (h *Host) ownKernel(c worker.Case) bool { return h.set.bindings[c.Op] != nil }

// errWrong is the error for outputs that differ from the reference.
var errWrong = errors.New("the kernel's output is wrong")
