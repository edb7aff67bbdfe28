package benchproto

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/ops"
)

// Run is one pass over all shapes.
type Run struct {
	Protocol string           `json:"protocol"`
	Seed     uint64           `json:"seed"`
	Rows     []measure.Result `json:"rows"` // by shape
	Errors   []string         `json:"errors,omitempty"`
	Seconds  float64          `json:"seconds"` // wall time, preparation included
	Busy     float64          `json:"busy_seconds"`
	Visits   int              `json:"visits"`
	Looks    int              `json:"looks"`
}

// Bench measures shapes on a device. The caller has bound its goroutine to it.
type Bench struct {
	Device   *ops.Device
	Shapes   []Shape
	Settings measure.Settings
	Tuning   measure.Tuning
	// Window is how many cases are open at once.
	Window int
	// Trace receives every visit with the index of its shape; it may be nil.
	Trace func(shape int, v measure.Visit)
}

// prepare makes the target of a shape.
func (b *Bench) prepare(s Shape) (*ops.Target, *ops.Case, error) {
	cases, err := b.Device.GEMM(ops.GEMM{M: s.M, N: s.N, K: s.K, Type: "bfloat16"})
	if err != nil {
		return nil, nil, err
	}
	t, err := b.Device.NewTarget(cases[0], b.Settings.Graph)
	if err != nil {
		cases[0].Close()
		return nil, nil, err
	}
	return t, cases[0], nil
}

// Session runs the session protocol once, in an order drawn from seed.
func (b *Bench) Session(ctx context.Context, seed uint64) (*Run, error) {
	out := &Run{Protocol: "session", Seed: seed, Rows: make([]measure.Result, len(b.Shapes))}
	rng := rand.New(rand.NewPCG(seed, 1))
	order := rng.Perm(len(b.Shapes))
	jobs := make(chan *measure.Job, b.Window)
	slots := make(chan struct{}, b.Window)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	begin := time.Now()
	go func() {
		defer close(jobs)
		unbind, err := b.Device.Bind()
		if err != nil {
			failed <- err
			return
		}
		defer unbind()
		for _, i := range order {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			t, c, err := b.prepare(b.Shapes[i])
			if err != nil {
				failed <- fmt.Errorf("%+v: %w", b.Shapes[i], err)
				return
			}
			j := &measure.Job{Target: t, Tag: i}
			j.Seconds, j.Watts = b.Device.Peaks.Estimate(c)
			j.Done = func(r measure.Result, err error) {
				if err != nil {
					out.Errors = append(out.Errors, fmt.Sprintf("%s: %v", c.Label, err))
				}
				out.Rows[i] = r
				t.Close()
				<-slots
			}
			jobs <- j
		}
	}()
	s := &measure.Session{
		Settings: b.Settings, Tuning: b.Tuning, Clock: measure.NewSystemClock(),
		Rand: rand.New(rand.NewPCG(seed, 2)),
	}
	if b.Trace != nil {
		s.Trace = func(v measure.Visit) { b.Trace(v.Job.Tag.(int), v) }
	}
	err := s.Run(ctx, jobs, driver.Sticky)
	out.Seconds = time.Since(begin).Seconds()
	out.Busy = s.Busy.Seconds()
	out.Visits, out.Looks = s.Visits, s.Looks
	select {
	case e := <-failed:
		err = e
	default:
	}
	return out, err
}

// Reference runs the reference protocol once: case after case, without pause.
func (b *Bench) Reference(ctx context.Context, seed uint64) (*Run, error) {
	out := &Run{Protocol: measure.ProtocolReference, Seed: seed, Rows: make([]measure.Result, len(b.Shapes))}
	set := b.Settings
	set.Protocol = measure.ProtocolReference
	begin := time.Now()
	clock := measure.NewSystemClock()
	for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(len(b.Shapes)) {
		t, _, err := b.prepare(b.Shapes[i])
		if err != nil {
			return nil, err
		}
		r, err := measure.Once(ctx, t.Replays(), clock, set)
		t.Close()
		if err != nil {
			return nil, err
		}
		out.Rows[i] = r
		out.Visits++
		out.Busy += r.Latency / 1e3 * float64(r.Executions*t.PerReplay())
	}
	out.Seconds = time.Since(begin).Seconds()
	return out, nil
}
