package measure_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"aicplan/cudaops/measure"
)

// TestSessionSoaksByMeasuredTimes has cases that take a thousand times as long as
// was estimated, as a kernel of unknown bytes does: running them ahead of
// their blocks must not take a thousand times as long as was asked for.
func TestSessionSoaksByMeasuredTimes(t *testing.T) {
	cases := []gpuCase{{latency: 2.5e-3, watts: 100, share: 1}, {latency: 5e-3, watts: 100, share: 1}}
	const warmup = 0.2
	var targets []*gpuTarget
	o := session(t, cases, 1, func(o *outcome, ts []*gpuTarget, jobs []*measure.Job) {
		targets = ts
		o.session.Settings.WarmupSeconds = warmup
		for _, j := range jobs {
			j.Seconds = 2.5e-6
		}
	})
	for i, tg := range targets {
		made := 0
		for k, b := range tg.Bursts {
			made += b.Total()
			took := float64(b.Soak) * cases[i].latency
			if took > 1.2*warmup {
				t.Errorf("case %d, burst %d: %.3g s ahead of the blocks, want %g", i, k, took, warmup)
			}
		}
		last := tg.Bursts[len(tg.Bursts)-1]
		if took := float64(last.Soak) * cases[i].latency; took < 0.9*warmup {
			t.Errorf("case %d: a counted visit ran %.3g s ahead, want %g", i, took, warmup)
		}
		if o.results[i].Executions < made {
			t.Errorf("case %d: %d executions in its row, %d were made", i, o.results[i].Executions, made)
		}
	}
}

// jitter reads a device's clock with noise, as stamps have it.
func jitter(o *outcome) func(context.Context) (float64, error) {
	rng := rand.New(rand.NewPCG(7, 7))
	return func(ctx context.Context) (float64, error) {
		mhz, err := o.gpu.Ready(ctx)
		return mhz + 3*rng.Float64(), err
	}
}

// TestRowsStayThrottledInLaterSessions has a device that loses its clock for good and whose
// clock reads a little different each time: a reading that is higher by noise is
// no recovery.
func TestRowsStayThrottledInLaterSessions(t *testing.T) {
	cases := workload(80)[:20]
	level := 0.0
	sessions := func(from float64) outcome {
		return session(t, cases, 1, func(o *outcome, _ []*gpuTarget, _ []*measure.Job) {
			o.session.Ready, o.session.Level = jitter(o), from
			visits := 0
			o.session.Trace = func(measure.Visit) {
				if visits++; visits == 10 {
					o.gpu.Heat(600)
					o.gpu.StepUp, o.gpu.MaxMHz = 0, 1380
				}
			}
			if from > 0 {
				o.gpu.Heat(600)
				o.gpu.StepUp, o.gpu.MaxMHz = 0, 1380
			}
		})
	}
	throttled := func(o outcome) (n int) {
		for i := range cases {
			if o.errs[i] != nil {
				t.Fatal(o.errs[i])
			}
			if is := o.results[i].Throttled; is != nil && *is {
				n++
			}
		}
		return n
	}
	first := sessions(0)
	if n := throttled(first); n < len(cases)/2 {
		t.Errorf("%d of %d rows are throttled", n, len(cases))
	}
	if level = first.session.Level; level < 1900 {
		t.Fatalf("the session leaves the level at %.0f MHz; the device had 1980", level)
	}
	// The next session of the worker marks its rows, too.
	if n := throttled(sessions(level)); n != len(cases) {
		t.Errorf("in the session after it %d of %d rows are throttled", n, len(cases))
	}
}

// TestSessionIgnoresClockUnderLoadAsLevel has only cases that run without regard to
// the clock: what they see is no level that another session may rely on.
func TestSessionIgnoresClockUnderLoadAsLevel(t *testing.T) {
	hot := []gpuCase{{latency: 10e-3, watts: 640, share: 1}, {latency: 20e-3, watts: 640, share: 1}}
	o := session(t, hot, 1, func(o *outcome, _ []*gpuTarget, _ []*measure.Job) {
		o.session.Settings.WarmupSeconds = 1
	})
	for _, r := range o.results {
		if r.ReadyMHz > 1900 {
			t.Fatalf("the device was not held down: it read %.0f MHz", r.ReadyMHz)
		}
	}
	if o.session.Level != 0 {
		t.Errorf("the session takes %.0f MHz for the clock of a ready device", o.session.Level)
	}
}

// TestShape compares the shape of a visit with its settings, also for implausible times.
func TestShape(t *testing.T) {
	set := recovered()
	set.WarmupSeconds = 0.1
	for _, c := range []struct {
		seconds float64
		quantum int
		want    measure.Burst
	}{
		{2.1e-6, 5, measure.Burst{Soak: 47_620, Warm: 5, Executions: 30, Blocks: 3}},
		{100e-6, 1, measure.Burst{Soak: 1000, Warm: 1, Executions: 1, Blocks: 3}},
		{400e-6, 1, measure.Burst{Soak: 250, Executions: 1, Blocks: 2}},
		{20e-3, 1, measure.Burst{Soak: 5, Executions: 1, Blocks: 1}},
		{1, 1, measure.Burst{Soak: 1, Executions: 1, Blocks: 1}},
	} {
		if got := set.Shape(c.seconds, c.quantum); got != c.want {
			t.Errorf("%g s in pieces of %d: %+v, want %+v", c.seconds, c.quantum, got, c.want)
		}
	}
	if b := set.Shape(0, 1); b.Soak < 1 || b.Executions < 1 || b.Blocks < 1 {
		t.Errorf("no time: %+v", b)
	}
}

// TestSessionFinish checks that work after the measurement is accounted for.
func TestSessionFinish(t *testing.T) {
	cases := workload(40)[:20]
	calls := 0
	o := session(t, cases, 1, func(o *outcome, ts []*gpuTarget, jobs []*measure.Job) {
		for _, j := range jobs {
			j.Finish = func(_ context.Context, r *measure.Measured) (float64, error) {
				calls++
				r.Protocol = "finished"
				o.gpu.Heat(400)
				return 50, nil
			}
		}
	})
	if calls != len(cases) {
		t.Errorf("Finish was called %d times for %d cases", calls, len(cases))
	}
	for i, r := range o.results {
		if r.Protocol != "finished" {
			t.Errorf("case %d: Done did not get what Finish made of the result", i)
		}
		if bias := r.Latency/1e3/cases[i].latency - 1; !(math.Abs(bias) <= 0.03) {
			t.Errorf("case %d: %+.1f %% off: the heat of Finish reached it", i, 100*bias)
		}
	}
}
