package ops

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// NumericCheck is the comparison of one op with its reference in float64.
type NumericCheck struct {
	Case string `json:"case"`
	// Result is pass or fail, or skip if the device or its libraries have no kernel for the case.
	// Message is the reason if it is not pass.
	Result  string    `json:"result"`
	Message string    `json:"message,omitempty"`
	Dev     Deviation `json:"deviation"`
}

// Timing contains readings of the device's clocks and the times of two known kernels.
type Timing struct {
	// EventStepNS is the smallest difference between two different event times.
	EventStepNS float64 `json:"event_step_ns"`
	// ReadyMHz is the SM clock of the idle device.
	ReadyMHz float64 `json:"ready_mhz"`
	// SpinMHz is the number of cycles of a kernel divided by its event time. It must agree with
	// StampMHz, the clock from stamps.
	SpinMHz  float64 `json:"spin_mhz"`
	StampMHz float64 `json:"stamp_mhz"`
	// CopyGBps counts bytes read and written; GemmTFLOPs is a bfloat16 product.
	CopyGBps   float64 `json:"copy_gb_per_s"`
	GemmTFLOPs float64 `json:"gemm_tflop_per_s,omitempty"`
	GemmMHz    float64 `json:"gemm_mhz,omitempty"` // while it ran
	// Problems lists implausible values. It is empty if the check passed.
	Problems []string `json:"problems,omitempty"`
}

const checkSamples = 64

// CheckNumerics runs every op once and compares its outputs with a reference in higher precision. An
// error means that the device is unusable.
func (d *Device) CheckNumerics(ctx context.Context) ([]NumericCheck, error) {
	var all []operation
	for _, typ := range []string{"bfloat16", "float16", "fp8", "int8", "fp8_block"} {
		for _, s := range [][3]int64{{1, 2048, 2048}, {33, 512, 1024}, {256, 1536, 7168}, {4096, 4096, 4096}} {
			all = append(all, GEMM{Type: typ, M: s[0], N: s[1], K: s[2]})
		}
	}

	for _, typ := range []string{"bfloat16", "fp8"} {
		for _, post := range []bool{false, true} {
			all = append(all, MLABMM{Type: typ, Tokens: 48, Heads: 16, Post: post})
		}
	}

	for _, k := range []string{"copy", "triad", "reduce"} {
		for _, size := range []int64{48, 1 << 20, 100<<20 + 16} {
			all = append(all, Memory{Kernel: k, Size: size})
		}
	}

	for _, k := range ElementwiseKernels {
		for _, typ := range []string{"bfloat16", "float16"} {
			all = append(all, Elementwise{Kernel: k, Type: typ, Tokens: 77, Hidden: 7168})
		}
	}

	var out []NumericCheck
	for _, op := range all {
		if err := ctx.Err(); err != nil {
			return out, err
		}

		c, err := op.prepare(d)
		if err == nil {
			var dev Deviation
			dev, err = c.Verify(checkSamples, 0)
			if c.Close != nil {
				c.Close()
			}

			if err == nil {
				out = append(out, judge(c.Label, dev))
				continue
			}
		}

		if cuda.Sticky(err) {
			return out, err
		}

		f := worker.FailureOf(err)
		k := NumericCheck{Result: "fail", Message: f.Message}
		if f.Class == worker.ClassUnsupportedConfig {
			k.Result = "skip"
		}

		out = append(out, k)
	}

	return out, nil
}

func judge(label string, dev Deviation) NumericCheck {
	k := NumericCheck{Case: label, Result: "pass", Dev: dev}
	if !dev.OK() {
		k.Result, k.Message = "fail", fmt.Sprintf("relative error %.3g, at most %.3g", dev.Relative, dev.Tolerance)
		if dev.Samples == 0 {
			k.Message = "nothing was compared"
		}
	}

	return k
}

// CheckTiming compares the device's clocks with each other and times a copy and a product of known
// size.
func (d *Device) CheckTiming(ctx context.Context) (Timing, error) {
	var t Timing
	var err error
	if t.EventStepNS, err = d.eventStep(); err != nil {
		return t, err
	}

	if t.ReadyMHz, err = d.Ready(ctx); err != nil {
		return t, err
	}

	if err := d.spinClock(&t); err != nil {
		return t, err
	}

	copyCase, err := Memory{Kernel: "copy", Size: min(1<<30, d.Arena.Out.bytes/2&^15)}.prepare(d)
	if err != nil {
		return t, err
	}

	b, err := d.timeCase(ctx, copyCase, 10)
	if err != nil {
		return t, err
	}

	t.CopyGBps = copyCase.Bytes / (b.Seconds / float64(b.Executions)) / 1e9
	gemm, err := GEMM{Type: "bfloat16", M: 8192, N: 8192, K: 8192}.prepare(d)
	if err == nil {
		b, err := d.timeCase(ctx, gemm, 10)
		if err != nil {
			return t, err
		}

		t.GemmTFLOPs, t.GemmMHz = gemm.Flops/(b.Seconds/float64(b.Executions))/1e12, b.ClockMHz
	}

	t.judge(d.Peaks)
	return t, nil
}

// judge lists implausible values. The bounds are wide, because they detect broken clocks and wrong
// counts, not slow devices.
func (t *Timing) judge(p Peaks) {
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			t.Problems = append(t.Problems, fmt.Sprintf(format, args...))
		}
	}

	bad(t.EventStepNS <= 0 || t.EventStepNS > 1100, "events step by %.0f ns; about 500 or less is expected",
		t.EventStepNS)
	bad(t.ReadyMHz < 200 || t.ReadyMHz > 5000, "the SM clock reads %.0f MHz", t.ReadyMHz)
	bad(math.Abs(t.SpinMHz/t.StampMHz-1) > 0.05, "a spinning kernel ran at %.0f MHz by events and %.0f MHz by stamps",
		t.SpinMHz, t.StampMHz)
	bad(t.CopyGBps <= 0 || p.MemBW > 0 && t.CopyGBps*1e9 > 1.02*p.MemBW,
		"a copy of 1 GiB moved %.0f GB/s; the peak is %.0f", t.CopyGBps, p.MemBW/1e9)
	bad(p.MemBW > 0 && t.CopyGBps*1e9 < 0.5*p.MemBW, "a copy reached %.0f GB/s, less than half of the peak of %.0f",
		t.CopyGBps, p.MemBW/1e9)
	peak := p.Flops[BFloat16]
	bad(peak > 0 && t.GemmTFLOPs*1e12 > 1.02*peak, "a product ran at %.0f TFLOP/s; the peak is %.0f", t.GemmTFLOPs,
		peak/1e12)
	bad(peak > 0 && t.GemmTFLOPs > 0 && t.GemmTFLOPs*1e12 < 0.4*peak,
		"a product ran at %.0f TFLOP/s, less than 0.4 of the peak of %.0f", t.GemmTFLOPs, peak/1e12)
}

func (d *Device) timeCase(ctx context.Context, c *Case, n int) (measure.Block, error) {
	t, err := d.NewTarget(c, Graphs{Mode: measure.GraphPrefer})
	if err != nil {
		return measure.Block{}, err
	}

	defer t.Close()
	blocks, err := t.Burst(ctx, measure.Burst{Warm: 1, Executions: n, Blocks: 1})
	if err != nil {
		return measure.Block{}, err
	}

	return blocks[0], nil
}

// eventStep returns the step of event times in nanoseconds, from many short intervals.
func (d *Device) eventStep() (float64, error) {
	api := d.Lib.Driver
	d.busy.Lock()
	defer d.busy.Unlock()
	var ns []float64
	for range 8 {
		for i, e := range d.events {
			if i%3 == 0 {
				if err := api.Launch(cuda.Launch{Func: d.core.null, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}},
					d.stream); err != nil {
					return 0, err
				}
			}

			if err := api.Record(e, d.stream); err != nil {
				return 0, err
			}
		}

		if err := api.SyncStream(d.stream); err != nil {
			return 0, err
		}

		for i := 1; i < len(d.events); i++ {
			ms, err := api.Elapsed(d.events[i-1], d.events[i])
			if err != nil {
				return 0, err
			}

			ns = append(ns, ms*1e6)
		}
	}

	slices.Sort(ns)
	step := math.Inf(1)
	for i := 1; i < len(ns); i++ {
		// Times are 32-bit floats in milliseconds, so differences below a nanosecond are rounding
		// errors.
		if gap := ns[i] - ns[i-1]; gap > 1 {
			step = math.Min(step, gap)
		}
	}

	if math.IsInf(step, 1) {
		return 0, nil
	}

	return step, nil
}

// spinClock compares a spinning kernel's cycles with event time and stamps.
func (d *Device) spinClock(t *Timing) error {
	const cycles = 400_000
	api := d.Lib.Driver
	d.busy.Lock()
	defer d.busy.Unlock()
	if err := d.queueGate(); err != nil {
		return err
	}

	_, err := d.timed(0, func() (int, error) {
		return 1, api.Launch(cuda.Launch{Func: d.core.spin, Grid: [3]int{d.Info.SMs, 1, 1}, Block: [3]int{32, 1, 1},
			Args: []any{uint64(cycles)}}, d.stream)
	})
	d.openGate()
	if err = cmp.Or(err, api.SyncStream(d.stream)); err != nil {
		return err
	}

	ms, err := api.Elapsed(d.events[0], d.events[1])
	if err != nil {
		return err
	}

	t.SpinMHz, t.StampMHz = cycles/ms/1e3, d.clockOf(0)
	return nil
}

// ProbeCopies returns the time of the smallest copy in seconds, and the bandwidth of a large copy to
// another device in bytes per second, or 0 if there is only one device.
func (d *Device) ProbeCopies(ctx context.Context) (small, peer float64, err error) {
	c, err := Memory{Kernel: "copy", Size: memoryWord}.prepare(d)
	if err != nil {
		return 0, 0, err
	}
	b, err := d.timeCase(ctx, c, 50)
	if err != nil {
		return 0, 0, err
	}

	small = b.Seconds / float64(b.Executions)
	n, err := d.Lib.Driver.Count()
	if err != nil || n < 2 {
		return small, 0, err
	}

	size := min(1<<30, d.Arena.Out.bytes/2&^15)
	if c, err = d.peerCopy(cuda.Device((d.Info.Index+1)%n), size); err == nil {
		b, err = d.timeCase(ctx, c, 10)
	}
	if err != nil {
		return small, 0, err
	}
	return small, float64(size) * float64(b.Executions) / b.Seconds, nil
}

// peerCopy returns a case that copies operands to another device. The runtime of kind nccl measures such copies
// for tables.
func (d *Device) peerCopy(to cuda.Device, size int64) (*Case, error) {
	api := d.Lib.Driver
	peer, err := api.Primary(to)
	if err != nil {
		return nil, err
	}

	direct, err := api.CanAccessPeer(cuda.Device(d.Info.Index), to)
	if err == nil && direct {
		err = api.EnablePeer(peer)
	}
	if err == nil {
		err = api.SetCurrent(peer)
	}
	if err != nil {
		return nil, err
	}

	dst, err := api.Alloc(size)
	in := d.Arena.Out.cursor("peer")
	src := in.take("the source", size)
	if err = cmp.Or(err, api.SetCurrent(d.ctx), in.err); err != nil {
		return nil, err
	}

	return &Case{
		Label: "copy to a peer", Sets: 1, PerGraph: 1,
		Enqueue: func(_ int, s cuda.Stream) error { return api.CopyPeer(dst, peer, src, d.ctx, size, s) },
		Close:   func() { _ = api.Free(dst) },
	}, nil
}
