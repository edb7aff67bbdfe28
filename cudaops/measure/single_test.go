package measure_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*math.Abs(want)) {
		t.Errorf("%s is %v, want %v within %v", what, got, want, tol)
	}
}

func TestOnceAdaptive(t *testing.T) {
	for _, latency := range []float64{0.5e-6, 3e-6, 40e-6, 900e-6, 30e-3} {
		target := &fakeTarget{
			Clock: new(measuretest.Clock), Latency: latency, First: 0.2, Noise: 0.002,
			Rand: rand.New(rand.NewPCG(1, 2)), Resolution: 0.5e-6, Graph: true,
		}
		s := measure.Defaults()
		r, err := measure.Once(t.Context(), target, target.Clock, s)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "latency", r.Latency, latency*1e3, 0.005)
		if r.Samples < s.Passes*s.MinSamples || r.Passes < 2 || !r.UsedGraph || r.Protocol != "adaptive" {
			t.Errorf("%v s: %+v", latency, r)
		}
		if !(r.P10 <= r.Latency) || !(r.P90 >= r.Latency) {
			t.Errorf("%v s: p10 %v and p90 %v do not enclose %v", latency, r.P10, r.P90, r.Latency)
		}
		if r.BlockMillis < 0.5*s.MinBlockSeconds*1e3 {
			t.Errorf("%v s: blocks of %v ms are shorter than the resolution allows", latency, r.BlockMillis)
		}
		sum := 0
		for _, n := range target.Blocks {
			sum += n
		}
		if sum != r.Executions {
			t.Errorf("%d executions ran, %d reported", sum, r.Executions)
		}
	}
}

func TestColdStartDoesNotCount(t *testing.T) {
	// The first execution takes 100 times as long: without a warm-up it would
	// be a sample, and the estimate from it would make blocks of one execution.
	target := &fakeTarget{Clock: new(measuretest.Clock), Latency: 10e-6, First: 1e-3}
	r, err := measure.Once(t.Context(), target, target.Clock, measure.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "latency", r.Latency, 0.01, 1e-9)
	near(t, "p90", r.P90, 0.01, 1e-9)
	if r.BlockMillis < 0.03 {
		t.Errorf("blocks are %v ms long", r.BlockMillis)
	}
}

func TestNoisySamplesTakeMore(t *testing.T) {
	count := func(noise float64) int {
		target := &fakeTarget{Clock: new(measuretest.Clock), Latency: 1e-4, Noise: noise,
			Rand: rand.New(rand.NewPCG(3, 4))}
		s := measure.Defaults()
		s.MaxPasses = s.Passes
		r, err := measure.Once(t.Context(), target, target.Clock, s)
		if err != nil {
			t.Fatal(err)
		}
		return r.Samples
	}
	s := measure.Defaults()
	if quiet := count(0.0001); quiet != s.Passes*s.MinSamples {
		t.Errorf("a quiet case took %d samples, want the minimum", quiet)
	}
	if loud := count(0.2); loud != s.Passes*s.MaxSamples {
		t.Errorf("a loud case took %d samples, want the maximum", loud)
	}
}

func TestPassBudget(t *testing.T) {
	target := &fakeTarget{Clock: new(measuretest.Clock), Latency: 0.2, Noise: 0.2,
		Rand: rand.New(rand.NewPCG(5, 6))}
	s := measure.Defaults()
	s.MaxPasses = s.Passes
	r, err := measure.Once(t.Context(), target, target.Clock, s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Samples != s.Passes*s.MinSamples {
		t.Errorf("a case of 0.2 s took %d samples beyond its budget", r.Samples)
	}
}

func TestPassesThatDisagreeAreRepeated(t *testing.T) {
	clock := new(measuretest.Clock)
	// The clock falls to half while the first pass runs.
	target := &fakeTarget{Clock: clock, Latency: 1e-3, NominalMHz: 2000, Steps: []clockStep{
		{At: 0, MHz: 1000, Throttled: true}, {At: 12 * time.Millisecond, MHz: 2000},
	}}
	s := measure.Defaults()
	s.IdleGapSeconds = 0.004
	r, err := measure.Once(t.Context(), target, clock, s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Passes != s.MaxPasses {
		t.Errorf("%d passes, want %d", r.Passes, s.MaxPasses)
	}
	near(t, "spread", r.PassSpread, 1, 0.01)
	near(t, "latency", r.Latency, 1, 0.01)
	if r.Throttled == nil || !*r.Throttled || r.ClockMHz != 2000 {
		t.Errorf("clock %v, throttled %v", r.ClockMHz, r.Throttled)
	}
	if want := time.Duration(s.MaxPasses) * 4 * time.Millisecond; clock.Slept() != want {
		t.Errorf("slept %v, want %v", clock.Slept(), want)
	}
}

func TestPowerRunsLongEnough(t *testing.T) {
	clock := new(measuretest.Clock)
	target := &fakeTarget{Clock: clock, Latency: 1e-3}
	s := measure.Defaults()
	s.Power, s.PowerMinSeconds = true, 1.5
	if _, err := measure.Once(t.Context(), target, clock, s); err != nil {
		t.Fatal(err)
	}
	if want := time.Duration(s.Passes) * 1500 * time.Millisecond; clock.Now() < want {
		t.Errorf("ran %v, want at least %v", clock.Now(), want)
	}
}

func TestReference(t *testing.T) {
	target := &fakeTarget{Clock: new(measuretest.Clock), Latency: 2e-3, First: 1, Graph: true}
	s := measure.Defaults()
	s.Protocol = measure.ProtocolReference
	r, err := measure.Once(t.Context(), target, target.Clock, s)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "latency", r.Latency, 2, 1e-9)
	if target.EagerCalls != 3 || len(target.Blocks) != 2 || target.Blocks[0] != 3 || target.Blocks[1] != 6 {
		t.Errorf("ran %d eager, blocks %v", target.EagerCalls, target.Blocks)
	}
	if r.Samples != 1 || r.RelStdev != nil || r.Executions != 12 || r.Protocol != "reference" {
		t.Errorf("%+v", r)
	}
}

// TestRoundedBlocks has a target that runs five executions where one is asked
// for: times are per execution all the same.
func TestRoundedBlocks(t *testing.T) {
	for _, protocol := range []string{measure.ProtocolAdaptive, measure.ProtocolReference} {
		clock := &measuretest.Clock{}
		target := &gpuTarget{GPU: measuretest.NewGPU(clock, rand.New(rand.NewPCG(1, 1))), Latency: 50e-6,
			Watts: 100, Graph: 5}
		set := measure.Defaults()
		set.Protocol = protocol
		r, err := measure.Once(context.Background(), target, clock, set)
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		for _, b := range target.Bursts {
			made += (b.Executions + 4) / 5 * 5
		}
		if !(math.Abs(r.Latency/0.05-1) <= 0.01) || r.Executions != made {
			t.Errorf("%s: %.4f ms and %d executions, want 0.05 and %d", protocol, r.Latency, r.Executions, made)
		}
	}
}

func TestErrors(t *testing.T) {
	clock := new(measuretest.Clock)
	boom := errors.New("illegal address")
	for _, protocol := range []string{measure.ProtocolAdaptive, measure.ProtocolReference} {
		s := measure.Defaults()
		s.Protocol = protocol
		target := &fakeTarget{Clock: clock, Latency: 1e-3, Fail: func(b int) error {
			if b == 1 {
				return boom
			}
			return nil
		}}
		if _, err := measure.Once(t.Context(), target, clock, s); !errors.Is(err, boom) {
			t.Errorf("%s: got %v", protocol, err)
		}
		for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
			target := &fakeTarget{Clock: clock, Latency: bad}
			if _, err := measure.Once(t.Context(), target, clock, s); !errors.Is(err, measure.ErrTimer) {
				t.Errorf("%s, latency %v: got %v", protocol, bad, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := measure.Once(ctx, &fakeTarget{Clock: clock, Latency: 1}, clock, s)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", protocol, err)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := measure.Defaults().Validate(); err != nil {
		t.Fatal(err)
	}
	s := measure.Defaults()
	s.Protocol, s.Graph, s.MinSamples, s.MaxPasses = "fast", "maybe", 0, 1
	s.MinBlockSeconds, s.PassTolerance, s.Power, s.PowerMinSeconds = 0, math.NaN(), true, 0
	err := s.Validate()
	for _, want := range []string{"protocol", "graph", "min_samples", "max_passes", "min_block_seconds", "pass_tolerance",
		"power_min_seconds"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := measure.Once(t.Context(), nil, nil, s); err == nil {
		t.Error("bad settings were accepted")
	}
}

func TestStats(t *testing.T) {
	xs := []float64{5, 1, 3, 2, 4}
	if got := measure.Median(xs); got != 3 {
		t.Errorf("median %v", got)
	}
	if got := measure.Percentile(xs, 0.9); !(math.Abs(got-4.6) <= 1e-12) {
		t.Errorf("p90 %v", got)
	}
	if got := measure.Median([]float64{1, 2}); got != 1.5 {
		t.Errorf("median of two %v", got)
	}
	near(t, "rel stdev", measure.RelStdev(xs), math.Sqrt(2.5)/3, 1e-12)
	if measure.RelStdev([]float64{3}) != 0 || measure.Spread([]float64{3}) != 0 || !math.IsNaN(measure.Median(nil)) {
		t.Error("edge cases of too few values")
	}
	if xs[0] != 5 {
		t.Error("the caller's values were reordered")
	}
}

// TestVisits has a processor that another process uses half of the time: the visits
// that were left alone count.
func TestVisits(t *testing.T) {
	t.Parallel()
	clock := new(measuretest.Clock)
	target := &fakeTarget{Clock: clock, Latency: 1e-4, Drift: func(int) float64 {
		if clock.Now()/(30*time.Millisecond)%2 == 1 {
			return 1.6
		}
		return 1
	}}
	s := measure.Defaults()
	s.Passes, s.MaxPasses, s.MinBlockSeconds, s.MinSamples = 3, 6, 0.001, 5
	v, err := measure.NewVisits(clock, s)
	if err != nil {
		t.Fatal(err)
	}
	visits := 0
	for ; !v.Done(); visits++ {
		if err := v.Visit(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	r := v.Result()
	near(t, "latency", r.Latency, 0.1, 0.001)
	if !(r.PassSpread >= 0.2) {
		t.Errorf("the visits differ by %v, and the row hides it", r.PassSpread)
	}
	if r.Passes != visits || visits < s.Passes {
		t.Errorf("%d passes of %d visits", r.Passes, visits)
	}
	if least := time.Duration(visits-1) * measure.VisitsGap; clock.Slept() < least {
		t.Errorf("visits with %v between them, want %v", clock.Slept(), least)
	}
	// With other work between them visits are apart already.
	slept := clock.Slept()
	if v, err = measure.NewVisits(clock, s); err != nil {
		t.Fatal(err)
	}
	for !v.Done() {
		if err := v.Visit(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		clock.Advance(measure.VisitsGap)
	}
	if more := clock.Slept() - slept; more != 0 {
		t.Errorf("slept %v beside other work", more)
	}
	s.Protocol = measure.ProtocolReference
	if v, err = measure.NewVisits(clock, s); err != nil {
		t.Fatal(err)
	}
	if err := v.Visit(t.Context(), target); err != nil || !v.Done() || v.Result().Protocol != measure.ProtocolReference ||
		v.Result().Spent <= 0 {
		t.Errorf("reference: %v, done %v, %+v", err, v.Done(), v.Result())
	}
}

// TestDisturbedVisits has a neighbour that stays for two seconds, in which all
// visits agree with each other. Somebody who sees it has the right latency, and
// no more visits than the settings allow.
func TestDisturbedVisits(t *testing.T) {
	t.Parallel()
	for _, marked := range []bool{false, true} {
		clock := new(measuretest.Clock)
		busy := func() bool { return clock.Now() < 1200*time.Millisecond }
		target := &fakeTarget{Clock: clock, Latency: 1e-4, Drift: func(int) float64 {
			if busy() {
				return 1.4
			}
			return 1
		}}
		s := measure.Defaults()
		s.Passes, s.MaxPasses, s.MinBlockSeconds, s.MinSamples = 4, 8, 0.001, 5
		v, err := measure.NewVisits(clock, s)
		if err != nil {
			t.Fatal(err)
		}
		for !v.Done() {
			before := busy()
			if err := v.Visit(t.Context(), target); err != nil {
				t.Fatal(err)
			}
			if marked && (before || busy()) {
				v.Disturbed()
			}
		}
		want := 0.14
		if marked {
			want = 0.1
		}
		r := v.Result()
		near(t, "latency", r.Latency, want, 0.001)
		if r.Passes > s.MaxPasses {
			t.Errorf("%d visits, %d at most", r.Passes, s.MaxPasses)
		}
	}
	// One that never leaves does not keep a case for ever.
	clock := new(measuretest.Clock)
	s := measure.Defaults()
	s.Passes, s.MaxPasses = 2, 5
	v, err := measure.NewVisits(clock, s)
	if err != nil {
		t.Fatal(err)
	}
	for !v.Done() {
		if err := v.Visit(t.Context(), &fakeTarget{Clock: clock, Latency: 1e-4}); err != nil {
			t.Fatal(err)
		}
		v.Disturbed()
	}
	if r := v.Result(); r.Passes != 5 {
		t.Errorf("%d visits, want 5", r.Passes)
	}
}
