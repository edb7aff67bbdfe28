package measure_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
)

// gpuCase is one case of a made-up workload.
type gpuCase struct{ latency, watts, share float64 }

// workload spreads cases evenly over log(latency), 2 us to 20 ms; the longer,
// the more they compute and draw.
func workload(n int) []gpuCase {
	out := make([]gpuCase, n)
	for i := range out {
		x := float64(i) / float64(n-1)
		out[i] = gpuCase{
			latency: 2e-6 * math.Pow(1e4, x),
			watts:   60 + 600*math.Min(1, 1.3*x)*float64(1+i%3)/3,
			share:   0.3 + 0.7*float64(i%4)/3,
		}
	}
	return out
}

// recovered are the default settings at the recovered point.
func recovered() measure.Settings {
	s := measure.Defaults()
	s.OperatingPoint = measure.PointRecovered
	return s
}

type outcome struct {
	results []measure.Measured
	errs    []error
	session *measure.Session
	gpu     *measuretest.GPU
	elapsed time.Duration
}

// session runs a workload in an order of its own; change may alter device,
// session and targets before it begins.
func session(t *testing.T, cases []gpuCase, seed uint64,
	change func(*outcome, []*gpuTarget, []*measure.Job)) outcome {
	t.Helper()
	clock := &measuretest.Clock{}
	gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(seed, 9)))
	gpu.Noise = 0.002
	o := outcome{results: make([]measure.Measured, len(cases)), errs: make([]error, len(cases)), gpu: gpu}
	o.session = &measure.Session{
		Settings: recovered(), Tuning: measure.DefaultTuning(600), Clock: clock,
		Rand: rand.New(rand.NewPCG(seed, 2)), Ready: gpu.Ready,
	}
	targets := make([]*gpuTarget, len(cases))
	jobs := make([]*measure.Job, len(cases))
	ended := make([]int, len(cases))
	for i, c := range cases {
		targets[i] = &gpuTarget{GPU: gpu, Latency: c.latency, Watts: c.watts, Share: c.share, Graph: 1}
		if c.latency < 100e-6 {
			targets[i].Graph = 1 + i%5
		}
		jobs[i] = &measure.Job{
			Target: targets[i], Tag: i, Watts: c.watts, Seconds: c.latency * (0.7 + 0.1*float64(i%7)),
			Done: func(r measure.Measured, err error) { o.results[i], o.errs[i], ended[i] = r, err, ended[i]+1 },
		}
	}
	if change != nil {
		change(&o, targets, jobs)
	}
	in := make(chan *measure.Job, len(jobs))
	for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(len(jobs)) {
		in <- jobs[i]
	}
	close(in)
	if err := o.session.Run(context.Background(), in, nil); err != nil {
		t.Fatal(err)
	}
	o.elapsed = clock.Now()
	for i, n := range ended {
		if n != 1 || o.errs[i] == nil && !(o.results[i].Latency > 0) {
			t.Errorf("case %d ended %d times, with %v ms", i, n, o.results[i].Latency)
		}
	}
	return o
}

// spreads are max/min of each case over runs, sorted.
func spreads(runs [][]float64) []float64 {
	var out []float64
	for i := range runs[0] {
		var xs []float64
		for _, r := range runs {
			xs = append(xs, r[i])
		}
		out = append(out, slices.Max(xs)/slices.Min(xs))
	}
	slices.Sort(out)
	return out
}

func latencies(rs []measure.Measured) []float64 {
	var out []float64
	for _, r := range rs {
		out = append(out, r.Latency)
	}
	return out
}

// TestSessionIndependentOfNeighbours measures the same workload in three orders
// on a device whose clock depends on recent power. The reference protocol on
// the same device must fail what the session passes: else the device would not
// be a test.
func TestSessionIndependentOfNeighbours(t *testing.T) {
	cases := workload(160)
	var own, ref [][]float64
	for seed := uint64(1); seed <= 3; seed++ {
		o := session(t, cases, seed, nil)
		own = append(own, latencies(o.results))
		if rate := float64(len(cases)) / o.elapsed.Seconds(); rate < 75 {
			t.Errorf("run %d: %.0f cases/s of virtual time, want at least 75", seed, rate)
		}
		ref = append(ref, reference(t, cases, seed))
		for i, r := range o.results {
			if bias := r.Latency/1e3/cases[i].latency - 1; !(math.Abs(bias) <= 0.05) {
				t.Errorf("run %d case %d (%.3g s): %+.1f %% off the latency at full clock", seed, i, cases[i].latency, 100*bias)
			}
		}
	}
	s, r := spreads(own), spreads(ref)
	p := func(xs []float64, q float64) float64 { return measure.Percentile(xs, q) }
	t.Logf("spread p50 / p95: session %.4f / %.4f, reference %.4f / %.4f", p(s, .5), p(s, .95), p(r, .5), p(r, .95))
	if !(p(s, .5) <= 1.01) || !(p(s, .95) <= 1.03) {
		t.Errorf("session spread p50 %.4f p95 %.4f, want at most 1.01 and 1.03", p(s, .5), p(s, .95))
	}
	if !(p(r, .95) >= 1.05) {
		t.Errorf("the reference protocol spreads only %.4f on this device: it does not test anything", p(r, .95))
	}
}

func reference(t *testing.T, cases []gpuCase, seed uint64) []float64 {
	t.Helper()
	clock := &measuretest.Clock{}
	gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(seed, 9)))
	gpu.Noise = 0.002
	out := make([]float64, len(cases))
	set := recovered()
	set.Protocol = measure.ProtocolReference
	for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(len(cases)) {
		c := cases[i]
		r, err := measure.Once(context.Background(),
			&gpuTarget{GPU: gpu, Latency: c.latency, Watts: c.watts, Share: c.share}, clock, set)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = r.Latency
	}
	return out
}

// TestSessionDisturbed heats the device behind the session's back: rows must
// not show it, and the visits that met it must be counted as discarded.
func TestSessionDisturbed(t *testing.T) {
	cases := workload(80)[:50] // none of them hot
	quiet := session(t, cases, 1, nil)
	loud := session(t, cases, 1, func(o *outcome, _ []*gpuTarget, _ []*measure.Job) {
		visits := 0
		o.session.Trace = func(measure.Visit) {
			if visits++; visits%15 == 0 {
				o.gpu.Heat(300)
			}
		}
	})
	if loud.session.Discarded == 0 {
		t.Error("no visit was discarded")
	}
	for i := range cases {
		if loud.errs[i] != nil {
			t.Fatal(loud.errs[i])
		}
		if r := loud.results[i].Latency / quiet.results[i].Latency; !(r <= 1.015 && r >= 0.985) {
			t.Errorf("case %d: %.4f of its undisturbed latency", i, r)
		}
		if is := loud.results[i].Throttled; is != nil && *is {
			t.Errorf("case %d is marked as throttled though its visits were not", i)
		}
	}
}

// TestSessionNeverReady has a device that loses its clock for good: the session
// must go on and mark its rows.
func TestSessionNeverReady(t *testing.T) {
	cases := workload(80)[:20]
	o := session(t, cases, 1, func(o *outcome, targets []*gpuTarget, _ []*measure.Job) {
		visits := 0
		o.session.Trace = func(measure.Visit) {
			if visits++; visits == 10 {
				o.gpu.Heat(600)
				o.gpu.StepUp = 0
			}
		}
	})
	throttled := 0
	for i := range cases {
		if o.errs[i] != nil || !(o.results[i].Latency > 0) {
			t.Fatalf("case %d: %+v, %v", i, o.results[i], o.errs[i])
		}
		if is := o.results[i].Throttled; is != nil && *is {
			throttled++
		}
	}
	if throttled < len(cases)/2 {
		t.Errorf("%d of %d rows are throttled", throttled, len(cases))
	}
	if o.session.Waited < o.session.Tuning.MaxWait {
		t.Errorf("waited %v for the clock, want at least %v once", o.session.Waited, o.session.Tuning.MaxWait)
	}
}

// TestSessionSustained lets every case run for a while before it is timed: rows
// must show the clock that a case holds by itself, whatever its neighbours are.
func TestSessionSustained(t *testing.T) {
	cases := workload(60)
	alone := func(c gpuCase) float64 { // mean latency of a second without a break
		clock := &measuretest.Clock{}
		gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(1, 1)))
		gpu.Execute(1, c.watts, c.share)
		return gpu.Execute(1, c.watts, c.share) * c.latency
	}
	var runs [][]float64
	capped := 0
	for seed := uint64(1); seed <= 3; seed++ {
		o := session(t, cases, seed, func(o *outcome, _ []*gpuTarget, _ []*measure.Job) {
			o.session.Settings.WarmupSeconds = 0.4
			// Longer than the steps of the device's controller.
			o.session.Settings.MinBlockSeconds = 0.1
		})
		runs = append(runs, latencies(o.results))
		for i, r := range o.results {
			want := alone(cases[i])
			if off := r.Latency/1e3/want - 1; !(math.Abs(off) <= 0.03) {
				t.Errorf("run %d case %d (%.3g s, %.0f W): %+.1f %% off what it takes by itself", seed, i, cases[i].latency,
					cases[i].watts, 100*off)
			}
			if want > 1.05*cases[i].latency {
				capped++
			}
		}
		if o.session.Waited > 0 {
			t.Errorf("run %d waited %v for a clock that does not matter", seed, o.session.Waited)
		}
	}
	if capped < 10 {
		t.Errorf("only %d rows are held down by the power cap: the workload does not test it", capped)
	}
	if s := spreads(runs); !(measure.Percentile(s, .95) <= 1.03) {
		t.Errorf("spread p95 %.4f", measure.Percentile(s, .95))
	}
}

// TestSessionPhases checks that hot cases are visited after one another.
func TestSessionPhases(t *testing.T) {
	cases := workload(120)
	var hot []bool
	o := session(t, cases, 3, func(o *outcome, _ []*gpuTarget, _ []*measure.Job) {
		o.session.Trace = func(v measure.Visit) { hot = append(hot, v.Hot) }
	})
	changes, hots := 0, 0
	for i, h := range hot {
		if h {
			hots++
		}
		if i > 0 && h != hot[i-1] {
			changes++
		}
	}
	if hots < 20 || hots == len(hot) {
		t.Fatalf("%d of %d visits are hot: the workload does not test phases", hots, len(hot))
	}
	if changes > 4 {
		t.Errorf("the session changed between cool and hot cases %d times in %d visits", changes, len(hot))
	}
	if o.session.Visits != len(hot) {
		t.Errorf("%d visits counted, %d traced", o.session.Visits, len(hot))
	}
}

func TestSessionPassesAndLooks(t *testing.T) {
	cases := workload(40)
	visitsOf := map[int][]measure.Visit{}
	o := session(t, cases, 5, func(o *outcome, _ []*gpuTarget, jobs []*measure.Job) {
		o.gpu.Noise = 0.02 // visits disagree often
		o.session.Trace = func(v measure.Visit) {
			i := v.Job.Tag.(int)
			visitsOf[i] = append(visitsOf[i], v)
		}
	})
	if o.session.Looks == 0 {
		t.Error("passes 2 % apart were not looked at again")
	}
	for i, r := range o.results {
		set := o.session.Settings
		if r.Passes < set.Passes || r.Passes > set.MaxPasses {
			t.Errorf("case %d has %d passes, want %d to %d", i, r.Passes, set.Passes, set.MaxPasses)
		}
		vs := visitsOf[i]
		for k := 1; k < len(vs); k++ {
			if apart := vs[k].At - vs[k-1].At; !vs[k-1].Discarded && apart < o.session.Tuning.Separation {
				t.Errorf("case %d: visits %v apart, want at least %v", i, apart, o.session.Tuning.Separation)
			}
		}
		if !r.UsedGraph || r.ClockMHz == 0 || r.ReadyMHz == 0 || r.Executions == 0 || r.Samples == 0 ||
			!(r.P10 <= r.Latency*1.05) || !(r.P90 >= r.Latency*0.95) {
			t.Errorf("case %d: implausible row %+v", i, r)
		}
	}
}

// TestSessionBlocks checks the shape of visits: short cases fill a block with
// whole graphs, long ones run once.
func TestSessionBlocks(t *testing.T) {
	cases := workload(40)
	var targets []*gpuTarget
	session(t, cases, 1, func(_ *outcome, ts []*gpuTarget, _ []*measure.Job) { targets = ts })
	for i, tg := range targets {
		last := tg.Bursts[len(tg.Bursts)-1]
		q := tg.Quantum()
		if last.Executions%q != 0 {
			t.Errorf("case %d: %d executions are no multiple of its graph of %d", i, last.Executions, q)
		}
		block := float64(last.Executions) * cases[i].latency
		if block < 55e-6 {
			t.Errorf("case %d: a block of %.3g s is too short for the timer", i, block)
		}
		if cases[i].latency > 2e-3 && (last.Blocks != 1 || last.Warm != 0 || last.Executions != q) {
			t.Errorf("case %d of %.3g s: %+v wastes time and heat", i, cases[i].latency, last)
		}
	}
}

func TestSessionErrors(t *testing.T) {
	boom := errors.New("boom")
	cases := workload(30)
	o := session(t, cases, 2, func(_ *outcome, ts []*gpuTarget, _ []*measure.Job) {
		ts[4].Fail = func(int) error { return boom }
		ts[9].Fail = func(burst int) error {
			if burst == 1 {
				return boom
			}
			return nil
		}
	})
	for i, err := range o.errs {
		if bad := i == 4 || i == 9; bad != (err != nil) || bad && !errors.Is(err, boom) {
			t.Errorf("case %d ended with %v", i, err)
		}
		if err == nil && !(o.results[i].Latency > 0) {
			t.Errorf("case %d has no latency", i)
		}
	}
}

// TestSessionStops checks that an error that ends the device ends the session,
// and that Done is not called for cases that are not measured.
func TestSessionStops(t *testing.T) {
	fatal := errors.New("sticky")
	clock := &measuretest.Clock{}
	gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(1, 1)))
	s := &measure.Session{Settings: recovered(), Tuning: measure.DefaultTuning(600), Clock: clock,
		Rand: rand.New(rand.NewPCG(1, 2))}
	in := make(chan *measure.Job, 3)
	done := 0
	for i := range 3 {
		tg := &gpuTarget{GPU: gpu, Latency: 1e-5, Watts: 100}
		if i == 1 {
			tg.Fail = func(int) error { return fatal }
		}
		in <- &measure.Job{Target: tg, Seconds: 1e-5, Watts: 100, Done: func(_ measure.Measured, err error) {
			done++
			if !errors.Is(err, fatal) {
				t.Errorf("Done got %v", err)
			}
		}}
	}
	close(in)
	err := s.Run(context.Background(), in, func(err error) bool { return errors.Is(err, fatal) })
	if !errors.Is(err, fatal) {
		t.Errorf("Run returned %v", err)
	}
	if done != 1 {
		t.Errorf("Done was called for %d cases, want only the one that failed", done)
	}
}

func TestSessionCancelled(t *testing.T) {
	clock := &measuretest.Clock{}
	gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(1, 1)))
	s := &measure.Session{Settings: recovered(), Tuning: measure.DefaultTuning(600), Clock: clock,
		Rand: rand.New(rand.NewPCG(1, 2))}
	ctx, cancel := context.WithCancel(context.Background())
	in := make(chan *measure.Job, 1)
	in <- &measure.Job{
		Target: &gpuTarget{GPU: gpu, Latency: 1e-5, Watts: 100, Fail: func(burst int) error {
			cancel()
			return ctx.Err()
		}},
		Seconds: 1e-5, Done: func(measure.Measured, error) { t.Error("Done was called for a cancelled case") },
	}
	if err := s.Run(ctx, in, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}

// TestSessionStreams feeds jobs only as others end, as a worker's window does.
func TestSessionStreams(t *testing.T) {
	cases := workload(60)
	clock := &measuretest.Clock{}
	gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(1, 1)))
	s := &measure.Session{Settings: recovered(), Tuning: measure.DefaultTuning(600), Clock: clock,
		Rand: rand.New(rand.NewPCG(1, 2)), Ready: gpu.Ready}
	in := make(chan *measure.Job, len(cases))
	next, done, open, most := 0, 0, 0, 0
	var feed func()
	feed = func() {
		if next == len(cases) {
			if open == 0 {
				close(in)
			}
			return
		}
		c := cases[next]
		next++
		open++
		most = max(most, open)
		in <- &measure.Job{
			Target: &gpuTarget{GPU: gpu, Latency: c.latency, Watts: c.watts,
				Share: c.share}, Seconds: c.latency, Watts: c.watts,
			Done: func(r measure.Measured, err error) {
				if err != nil || !(r.Latency > 0) {
					t.Errorf("%+v, %v", r, err)
				}
				done++
				open--
				feed()
			},
		}
	}
	for range 8 {
		feed()
	}
	if err := s.Run(context.Background(), in, nil); err != nil {
		t.Fatal(err)
	}
	if done != len(cases) || most > 8 {
		t.Errorf("%d of %d cases done, at most %d open at once", done, len(cases), most)
	}
}
