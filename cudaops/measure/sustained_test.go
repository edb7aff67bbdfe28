package measure_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
)

// alone is what a case takes on a device of its own after so long that it is in
// its own state: 1 s, the mean of the last half.
func alone(c gpuCase, seed uint64) (seconds, mhz float64) { return aloneOn(c, seed, 0) }

// aloneOn is alone on a device that delivers so many watts at once.
func aloneOn(c gpuCase, seed uint64, fast float64) (seconds, mhz float64) {
	clock := &measuretest.Clock{}
	gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(seed, 9)))
	if gpu.FastWatts = fast; fast == learnedFast {
		gpu.CapWatts, gpu.MinMHz, gpu.Voltage = learnedCap, 345, 1
	}
	n, sum, clocks := 0.0, 0.0, 0.0
	for clock.Now() < time.Second {
		s := gpu.Execute(2e-3, c.watts, c.share) / 2e-3 * c.latency
		if clock.Now() > 500*time.Millisecond {
			n, sum, clocks = n+1, sum+s, clocks+gpu.MHz()
		}
	}
	return sum / n, clocks / n
}

// hungry spreads cases as workload does, and half of them draw more than the cap.
func hungry(n int) []gpuCase {
	out := workload(n)
	for i := range out {
		x := float64(i) / float64(n-1)
		out[i].watts = 60 + 650*math.Min(1, 1.5*x)*(0.7+0.3*float64(i%5)/4)
		out[i].share = []float64{1, 1, 0.9, 0.2}[i%4]
	}
	return out
}

// sustained runs a workload at the sustained point. Watts of the workload are at
// full clock.
func sustained(t *testing.T, cases []gpuCase, seed uint64,
	change func(*outcome, []*gpuTarget, []*measure.Job)) outcome {
	t.Helper()
	return session(t, cases, seed, func(o *outcome, targets []*gpuTarget, jobs []*measure.Job) {
		o.session.Settings = measure.Defaults()
		o.session.Tuning.CapWatts = o.gpu.CapWatts
		if change != nil {
			change(o, targets, jobs)
		}
	})
}

// TestBatchIsVisitedByRank: Draw decides which cases are capped, and Rank in which
// order they are visited; those that are not capped have none.
func TestBatchIsVisitedByRank(t *testing.T) {
	t.Parallel()
	cases := hungry(60)
	var order []int
	o := sustained(t, cases, 1, func(o *outcome, _ []*gpuTarget, jobs []*measure.Job) {
		for i, j := range jobs {
			j.Draw = func(float64, float64) float64 { return cases[i].watts }
			j.Rank = func(float64, float64) float64 { return float64(1 + i*37%60) }
		}
		o.session.Trace = func(v measure.Visit) {
			if v.Hot && !v.Discarded {
				order = append(order, v.Job.Tag.(int))
			}
		}
	})
	capped, n := make([]bool, len(cases)), 0
	for i, r := range o.results {
		if o.errs[i] != nil {
			t.Fatal(o.errs[i])
		}
		if capped[i] = r.ClockSlope != nil; capped[i] {
			n++
		}
		if share := cases[i].watts / o.gpu.CapWatts; capped[i] != (share > 0.6) && math.Abs(share-0.6) > 0.1 {
			t.Errorf("a case of %.2f of the cap counts as capped: %v", share, capped[i])
		}
	}
	if n < 20 || len(order) != 2*n {
		t.Fatalf("%d visits to %d capped cases", len(order), n)
	}
	for i, tag := range order[:n] {
		if i > 0 && tag*37%60 > order[i-1]*37%60 {
			t.Errorf("down the order %d comes behind %d", tag, order[i-1])
		}
		if back := order[2*n-1-i]; back != tag {
			t.Errorf("up the order %d is where %d was", back, tag)
		}
	}
}

// TestSustained holds rows to what every case takes alone without end, and to
// what another order of the same cases gives.
func TestSustained(t *testing.T) {
	t.Parallel()
	cases := hungry(150)
	a, b := sustained(t, cases, 1, nil), sustained(t, cases, 2, nil)
	var off, spread []float64
	slower := 0
	for i, c := range cases {
		if a.errs[i] != nil {
			t.Fatal(a.errs[i])
		}
		r := a.results[i]
		truth, _ := alone(c, 5)
		off = append(off, r.Latency/1e3/truth)
		spread = append(spread, math.Max(r.Latency, b.results[i].Latency)/math.Min(r.Latency, b.results[i].Latency))
		if truth > 1.05*c.latency {
			slower++
		}
		if r.OperatingPoint != measure.PointSustained || !(r.ClockMHz > 0) || r.Columns()["operating_point"] != "sustained" {
			t.Errorf("case %d: %+v", i, r)
		}
	}
	if slower < 30 {
		t.Fatalf("the cap holds back %d of %d cases: nothing is tried", slower, len(cases))
	}
	p5, p50, p95 := measure.Percentile(off, .05), measure.Percentile(off, .5), measure.Percentile(off, .95)
	if !(p5 >= 0.96) || !(p95 <= 1.04) || !(math.Abs(p50-1) <= 0.01) {
		t.Errorf("against what the cases take alone: p5 %.4f, p50 %.4f, p95 %.4f", p5, p50, p95)
	}
	if p50, p95 := measure.Percentile(spread, .5), measure.Percentile(spread, .95); !(p50 <= 1.01) || !(p95 <= 1.03) {
		t.Errorf("two orders differ by p50 %.4f, p95 %.4f", p50, p95)
	}
	if per := a.elapsed.Seconds() / float64(len(cases)); per > 1./20 {
		t.Errorf("%.1f cases/s", 1/per)
	}
	t.Logf("ratio p5 %.4f p50 %.4f p95 %.4f, spread p50 %.4f p95 %.4f, %.1f cases/s", measure.Percentile(off, .05),
		measure.Percentile(off, .5), measure.Percentile(off, .95),
		measure.Percentile(spread, .5), measure.Percentile(spread, .95), float64(len(cases))/a.elapsed.Seconds())
}

// TestPointsDiffer measures the same capped cases at both points.
func TestPointsDiffer(t *testing.T) {
	t.Parallel()
	cases := []gpuCase{{2e-3, 650, 1}, {3e-3, 650, 1}, {1e-3, 640, 1}, {5e-6, 60, 1}}
	s, r := sustained(t, cases, 1, nil), session(t, cases, 1, nil)
	for i := range cases {
		if s.errs[i] != nil || r.errs[i] != nil {
			t.Fatal(s.errs[i], r.errs[i])
		}
		if p := r.results[i].OperatingPoint; p != measure.PointRecovered {
			t.Errorf("a row of the recovered point has %q", p)
		}
		ratio := s.results[i].Latency / r.results[i].Latency
		if capped := cases[i].watts > 500; capped && ratio < 1.1 || !capped && math.Abs(ratio-1) > 0.01 {
			t.Errorf("case %d: sustained / recovered %.3f", i, ratio)
		}
		if x := s.results[i]; cases[i].watts > 500 && (x.ClockSeenMHz <= 0 || x.ClockSlope == nil || *x.ClockSlope < 0.8) {
			t.Errorf("case %d follows the clock fully: %+v", i, x)
		}
	}
}

// TestSustainedFew has a single capped case, and cases of which one fails in the
// middle of a pass.
func TestSustainedFew(t *testing.T) {
	t.Parallel()
	one := sustained(t, []gpuCase{{2e-3, 650, 1}}, 1, nil)
	truth, _ := alone(gpuCase{2e-3, 650, 1}, 5)
	if got := one.results[0].Latency / 1e3 / truth; !(math.Abs(got-1) <= 0.02) {
		t.Errorf("alone: %.4f of the truth", got)
	}
	cases := hungry(60)[40:]
	broken := errors.New("the kernel failed")
	some := sustained(t, cases, 1, func(_ *outcome, targets []*gpuTarget, _ []*measure.Job) {
		targets[7].Fail = func(burst int) error {
			if burst == 3 {
				return broken
			}
			return nil
		}
	})
	for i := range cases {
		if i == 7 {
			if !errors.Is(some.errs[i], broken) {
				t.Errorf("the failed case ended with %v", some.errs[i])
			}
		} else if some.errs[i] != nil || !(some.results[i].Latency > 0) {
			t.Errorf("case %d: %+v, %v", i, some.results[i], some.errs[i])
		}
	}
}

// TestSustainedSmallBatch has so few cases that a pass of short visits is over before a
// controller of the mean power of a second separates them.
func TestSustainedSmallBatch(t *testing.T) {
	t.Parallel()
	const slow = 50 // periods of the controller's mean
	cases := hungry(90)[45:]
	truth := make([]float64, len(cases))
	for i := range cases {
		cases[i] = gpuCase{1e-4 * float64(1+i%7*3), 560 + 250*float64(i)/float64(len(cases)), 1}
		clock := &measuretest.Clock{}
		gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(5, 9)))
		gpu.MeanPeriods = slow
		n, sum := 0.0, 0.0
		for clock.Now() < 6*time.Second {
			s := gpu.Execute(2e-3, cases[i].watts, 1) / 2e-3 * cases[i].latency
			if clock.Now() > 4*time.Second {
				n, sum = n+1, sum+s
			}
		}
		truth[i] = sum / n
	}
	got := sustained(t, cases, 3, func(o *outcome, _ []*gpuTarget,
		_ []*measure.Job) {
		o.gpu.MeanPeriods = slow
	})
	var off []float64
	for i := range cases {
		if got.errs[i] != nil {
			t.Fatal(got.errs[i])
		}
		off = append(off, got.results[i].Latency/1e3/truth[i])
	}
	if r := truth[len(truth)-1] / cases[len(cases)-1].latency * cases[0].latency / truth[0]; !(r > 1.4) {
		t.Fatalf("the cap slows the hungriest case %.2f times as much as the first: nothing is tried", r)
	}
	// Visits of a pass of 1.5 s are 0.78 to 1.18 of it.
	if p5, p95 := measure.Percentile(off, .05), measure.Percentile(off, .95); !(p5 >= 0.92 && p95 <= 1.05) {
		t.Errorf("against what the cases take alone: p5 %.4f, p95 %.4f", p5, p95)
	}
}

// TestSustainedOwnClock: the fewer capped cases there are, the longer each is visited,
// and the more its latency is stated at the clock that it had itself.
func TestSustainedOwnClock(t *testing.T) {
	t.Parallel()
	apart := func(n int) float64 {
		cases := make([]gpuCase, n)
		for i := range cases {
			cases[i] = gpuCase{1e-4 * float64(1+i%7*3), 560 + 250*float64(i)/float64(n), 1}
		}
		got := sustained(t, cases, 3, func(o *outcome, _ []*gpuTarget,
			_ []*measure.Job) {
			o.gpu.MeanPeriods = 50
		})
		most := 0.0
		for i, r := range got.results {
			if got.errs[i] != nil || r.ClockSeenMHz == 0 {
				t.Fatalf("case %d of %d: %+v, %v", i, n, r, got.errs[i])
			}
			most = max(most, math.Abs(math.Log(r.ClockMHz/r.ClockSeenMHz)))
		}
		return most
	}
	// Where it is stated wholly at its own clock, what is left is the mean of another
	// kind; at that of its neighbours it is 0.04 away.
	if few := apart(30); !(few <= 0.01) {
		t.Errorf("of 30 cases one is stated %.4f from its own clock", few)
	}
	if more := apart(50); !(more >= 0.02 && more <= 0.035) {
		t.Errorf("of 50 cases one is stated %.4f from its own clock", more)
	}
}

// TestSustainedBatches gives no more cases at once than a worker holds.
func TestSustainedBatches(t *testing.T) {
	t.Parallel()
	cases := hungry(90)
	whole := sustained(t, cases, 3, nil)
	parts := sustained(t, cases, 3, func(o *outcome, _ []*gpuTarget,
		_ []*measure.Job) {
		o.session.Batch = 20
	})
	for i := range cases {
		if parts.errs[i] != nil {
			t.Fatal(parts.errs[i])
		}
		if r := parts.results[i].Latency / whole.results[i].Latency; !(math.Abs(r-1) <= 0.05) {
			t.Errorf("case %d: %.3f", i, r)
		}
	}
}

// TestRestAfterBatch: the clock decides when the device has recovered from a batch, not the energy of its visits.
func TestRestAfterBatch(t *testing.T) {
	t.Parallel()
	clock := &measuretest.Clock{}
	gpu := measuretest.NewGPU(clock, rand.New(rand.NewPCG(1, 9)))
	s := &measure.Session{Settings: measure.Defaults(), Tuning: measure.DefaultTuning(gpu.CapWatts), Clock: clock,
		Rand: rand.New(rand.NewPCG(1, 2)), Ready: gpu.Ready}
	var rests []time.Duration
	hot := false
	s.Trace = func(v measure.Visit) {
		if hot && !v.Hot {
			rests = append(rests, v.Idle)
		}
		hot = v.Hot
	}

	const capped = 40
	in := make(chan *measure.Job, capped+1)
	add := func(watts float64, done func()) {
		in <- &measure.Job{Target: &gpuTarget{GPU: gpu, Latency: 1e-3, Watts: watts, Share: 1},
			Seconds: 1e-3, Watts: watts, Done: func(_ measure.Measured, err error) {
				if err != nil {
					t.Error(err)
				}
				done()
			}}
	}
	left := capped
	for range capped {
		add(680, func() {
			if left--; left == 0 {
				add(60, func() {})
				close(in)
			}
		})
	}
	if err := s.Run(t.Context(), in, nil); err != nil {
		t.Fatal(err)
	}
	if len(rests) != 1 || rests[0] > time.Second {
		t.Errorf("the device rests %v between a batch and the next case", rests)
	}
}

// TestLongExecutionsAreVisitedWithTheCappedOnes: a look at them on a recovered device would cost as much as their row.
func TestLongExecutionsAreVisitedWithTheCappedOnes(t *testing.T) {
	t.Parallel()
	cases := hungry(20)
	cases[7].latency = 0.3
	visits, cool := 0, 0
	o := sustained(t, cases, 1, func(o *outcome, _ []*gpuTarget, jobs []*measure.Job) {
		o.session.Tuning.HotPass = hotPass
		for _, j := range jobs {
			j.Learn = true
		}
		o.session.Trace = func(v measure.Visit) {
			if v.Job.Tag == 7 {
				visits++
				if !v.Hot {
					cool++
				}
			}
		}
	})
	if cool > 0 || visits < 2 || visits > 3 {
		t.Errorf("%d visits of 0.3 s, %d of them alone", visits, cool)
	}
	if r := o.results[7]; r.Passes != 1 || math.Abs(r.ClockMHz-r.ClockSeenMHz) > 0.01 {
		t.Errorf("only the last visit counts, at the clock that it had: %+v", r)
	}
}

// TestCasesThatAreNotCapped: one whose executions are so brief that its clock reads low, and one whose first visit
// something else disturbs, are not visited among the capped ones.
func TestCasesThatAreNotCapped(t *testing.T) {
	t.Parallel()
	cases := hungry(20)
	cases[19].latency, cases[18].latency, cases[18].watts = 2e-6, 12e-6, 60
	visits, hot := [20]int{}, [20]int{}
	sustained(t, cases, 1, func(o *outcome, targets []*gpuTarget, jobs []*measure.Job) {
		o.session.Tuning.HotPass, o.gpu.FastWatts = hotPass, 450
		targets[18].Disturbed = map[int]bool{0: true, 1: true}
		for i, j := range jobs {
			j.Learn, j.Seconds = true, cases[i].latency
		}
		o.session.Trace = func(v measure.Visit) {
			visits[v.Job.Tag.(int)]++
			if v.Hot {
				hot[v.Job.Tag.(int)]++
			}
		}
	})
	for _, i := range []int{18, 19} {
		if visits[i] < 2 || hot[i] > 0 {
			t.Errorf("case %d: %d visits, %d of them among capped cases", i, visits[i], hot[i])
		}
	}
	if hot[17] == 0 {
		t.Error("no case was capped")
	}
}

const hotPass = 450 * time.Millisecond

// TestLearnedCasesRunInWindows: after a rest, capped cases heat the device and are visited once each, those that the cap
// certainly limits first, before a controller lowers the clock that acts on the mean power of a second.
func TestLearnedCasesRunInWindows(t *testing.T) {
	t.Parallel()
	alike := heavy(160)
	for i := range alike {
		alike[i].watts = 800
	}
	long := heavy(60)
	for i := range long {
		long[i].latency = max(long[i].latency, 25e-3)
	}
	busy := 0
	for _, cases := range [][]gpuCase{heavy(160), heavy(30), alike, long} {
		busy += runInWindows(t, cases)
	}
	if busy < 100 {
		t.Errorf("the device works on after %d visits", busy)
	}
}

// runInWindows returns after how many visits the device works on. What is left runs within the first block of the next
// visit, which has to have others then.
func runInWindows(t *testing.T, cases []gpuCase) (busy int) {
	t.Helper()
	left := false
	var last, began time.Duration
	visited := map[any]int{}
	rests, ready, light := 0, false, false
	o := learned(t, cases, func(o *outcome, _ []*gpuTarget, _ []*measure.Job) {
		o.session.Trace = func(v measure.Visit) {
			if !v.Hot {
				return
			}
			if rests == 0 || v.At-last >= 90*time.Millisecond {
				began, ready = v.At, false
				rests++
			}
			last = o.gpu.Clock.Now()
			if left && len(v.Blocks) < 3 {
				t.Errorf("case %v has %d blocks, with work of the visit before", v.Job.Tag, len(v.Blocks))
			}
			bursts := v.Job.Target.(*gpuTarget).Bursts
			if left = !bursts[len(bursts)-1].Stop; left {
				busy++
			}
			if v.Discarded {
				light = false
				return
			}
			if !ready && v.At-began < 190*time.Millisecond {
				t.Errorf("case %v counts %v after a rest", v.Job.Tag, v.At-began)
			}
			ready = true
			visited[v.Job.Tag]++
			if last-began > 820*time.Millisecond {
				t.Errorf("%v of work without a rest", last-began)
			}
			isLight := cases[v.Job.Tag.(int)].watts < drawing(0.89)
			if light && !isLight {
				t.Errorf("case %v is visited after a lighter one that the cap may not limit", v.Job.Tag)
			}
			light = isLight
		}
	})
	if len(visited) < len(cases)/3 {
		t.Fatalf("%d capped cases of %d", len(visited), len(cases))
	}
	if want := len(visited) / 75; rests < want {
		t.Errorf("%d rests in %d visits", rests, len(visited))
	}
	for tag, n := range visited {
		if i := tag.(int); n != 1 || o.results[i].Passes != 1 {
			t.Errorf("case %v was visited %d times: %+v", tag, n, o.results[i])
		}
	}
	return busy
}

// TestWindowBehindFailedCasesIsHeated: cases that fail do not heat the device for those of the next window.
func TestWindowBehindFailedCasesIsHeated(t *testing.T) {
	t.Parallel()
	cases := make([]gpuCase, 8)
	for i := range cases {
		cases[i] = gpuCase{latency: 1e-3, watts: []float64{900, 650}[i/4], share: 1}
	}
	probed := map[any]bool{}
	began, heated := time.Duration(-1), time.Duration(0)
	sustained(t, cases, 1, func(o *outcome, targets []*gpuTarget, jobs []*measure.Job) {
		o.gpu.FastWatts = 400
		o.session.Level = o.gpu.MaxMHz
		o.session.Tuning.HotPass = hotPass
		for i, j := range jobs {
			j.Learn = true
			targets[i].Fail = func(int) error {
				if i < 4 && len(probed) == len(cases) {
					return errors.New("gone")
				}
				return nil
			}
		}
		o.session.Trace = func(v measure.Visit) {
			probed[v.Job.Tag] = true
			if v.Hot && began < 0 {
				began = v.At
			}
			if v.Hot && !v.Discarded && heated == 0 {
				heated = v.At - began
			}
		}
	})
	if heated < 190*time.Millisecond {
		t.Errorf("the device works for %v before visits count", heated)
	}
}

// TestLearnedRows compares capped rows of which only the droop is known with what every case takes alone, and two runs.
func TestLearnedRows(t *testing.T) {
	t.Parallel()
	cases := heavy(160)
	for i := range cases {
		cases[i].latency = min(cases[i].latency, 4e-3)
	}
	a := learned(t, cases, nil)
	b := learned(t, cases, func(o *outcome, _ []*gpuTarget, _ []*measure.Job) { o.gpu.Rand = rand.New(rand.NewPCG(2, 9)) })
	var off, spread []float64
	for i, c := range cases {
		if a.errs[i] != nil || b.errs[i] != nil {
			t.Fatal(a.errs[i], b.errs[i])
		}
		x, y := a.results[i].Latency, b.results[i].Latency
		if truth, _ := aloneOn(c, 5, learnedFast); c.watts > drawing(0.88) {
			// An H200 lowers the clock by 2.2 % more than this device once a case runs alone.
			off, spread = append(off, x/1e3/truth*(1-0.022*c.share)), append(spread, max(x, y)/min(x, y))
		}
	}
	if len(off) < 30 {
		t.Fatalf("the cap limits %d of %d cases: nothing is tried", len(off), len(cases))
	}
	p5, p50, p95 := measure.Percentile(off, .05), measure.Percentile(off, .5), measure.Percentile(off, .95)
	if !(p5 >= 0.98) || !(p95 <= 1.02) || !(math.Abs(p50-1) <= 0.01) {
		t.Errorf("against what the cases take alone: p5 %.4f, p50 %.4f, p95 %.4f", p5, p50, p95)
	}
	if p50, p95 := measure.Percentile(spread, .5), measure.Percentile(spread, .95); !(p50 <= 1.01) || !(p95 <= 1.03) {
		t.Errorf("two orders differ by p50 %.4f, p95 %.4f", p50, p95)
	}
}

// With these, cases keep 0.65 of the clock at a droop of 0.79 and 0.75 at 0.885, as products on an H200 do.
const learnedFast, learnedCap = 470, 359

// heavy is hungry for the device of learned.
func heavy(n int) []gpuCase {
	out := hungry(n)
	for i := range out {
		out[i].watts *= 1.4
	}
	return out
}

// learned runs cases of which only the droop is known.
func learned(t *testing.T, cases []gpuCase, change func(*outcome, []*gpuTarget, []*measure.Job)) outcome {
	t.Helper()
	return sustained(t, cases, 1, func(o *outcome, targets []*gpuTarget, jobs []*measure.Job) {
		o.gpu.FastWatts, o.gpu.CapWatts, o.gpu.MinMHz, o.gpu.Voltage = learnedFast, learnedCap, 345, 1
		o.session.Level, o.session.Tuning.HotPass = o.gpu.MaxMHz, hotPass
		for _, j := range jobs {
			j.Learn = true
		}
		if change != nil {
			change(o, targets, jobs)
		}
	})
}

// drawing returns the watts of a case with the given droop.
func drawing(droop float64) float64 { return learnedFast / math.Pow(droop, 2.5) }

// TestLearnedClocks gives single cases beside capped ones: from a droop of 0.88 to 0.91 the stated clock rises from
// the line through the capped ones to the clock of the droop. Others keep the clock that they have: brief executions,
// long ones, those whose clock did not move, and all without a capped case.
func TestLearnedClocks(t *testing.T) {
	t.Parallel()
	const halfway, light, brief, disturbed, unlike, long, first, between = 0, 1, 2, 3, 4, 5, 6, 47
	cases := []gpuCase{
		halfway: {1e-3, drawing(0.8945), 1}, light: {1e-3, drawing(0.915), 1}, brief: {20e-6, drawing(0.88), 1},
		disturbed: {1e-3, 300, 1}, unlike: {1e-3, drawing(0.92), 1}, long: {0.12, drawing(0.77), 1},
	}
	for i := range 41 {
		cases = append(cases, gpuCase{1e-3, drawing(0.88 - 0.003*float64(i)), 1})
	}
	for range 40 {
		cases = append(cases, gpuCase{1e-3, drawing(0.895), 1})
	}
	for _, alone := range []bool{false, true} {
		in := cases
		if alone {
			in = cases[:first]
		}
		o := learned(t, in, func(o *outcome, targets []*gpuTarget, jobs []*measure.Job) {
			o.session.Level *= 1.01
			targets[disturbed].Disturbed = map[int]bool{0: true}
			jobs[unlike].Seconds = 0.2 // as an estimate that other processes disturbed
			if alone {
				o.gpu.CapWatts = 400 // the clock of all moves
			}
		})
		for i, droop := range map[int]float64{light: 0.915, brief: 0.88, unlike: 0.92} {
			r := o.results[i]
			if !alone && math.Abs(r.Latency/1e3/cases[i].latency*droop-1) > 0.02 || i != unlike && r.ClockSlope != nil {
				t.Errorf("case %d, alone %v: %+v", i, alone, r)
			}
		}
		if r := o.results[disturbed]; math.Abs(r.Latency/1e3/cases[disturbed].latency-1) > 0.05 {
			t.Errorf("a disturbed look, alone %v: %+v", alone, r)
		}
		if r := o.results[long]; r.Passes != 1 || !(math.Abs(r.ClockMHz/r.ClockSeenMHz-1) < 1e-9) {
			t.Errorf("a long execution, alone %v: %+v", alone, r)
		}
		if r := o.results[halfway]; alone {
			if !(math.Abs(r.ClockMHz/r.ClockSeenMHz-1) < 1e-9) || *r.ClockSlope < 0.5 {
				t.Errorf("without capped cases: %+v", r)
			}
			continue
		}
		line, top := o.results[first].ClockMHz, 0.91*o.session.Level
		var stated []float64
		for _, r := range o.results[first:between] {
			stated = append(stated, r.ClockMHz/r.ClockSeenMHz)
		}
		if got := measure.Median(stated); math.Abs(got-0.978) > 0.01 {
			t.Errorf("capped cases are stated at %.3f of the clocks that they had", got)
		}
		if got, want := o.results[halfway].ClockMHz, line+(top-line)*0.4833; math.Abs(got/want-1) > 0.005 {
			t.Errorf("between %.0f and %.0f MHz: %.0f", line, top, got)
		}
		for i, r := range o.results[between:] {
			if !(math.Abs(r.ClockMHz/r.ClockSeenMHz-1) < 0.001) && *r.ClockSlope < 0.85 {
				t.Errorf("case %d: %+v", between+i, r)
			}
		}
	}
}

// TestCappedCaseThatHeatsOthersFails: it ends once, and the others are heated nevertheless.
func TestCappedCaseThatHeatsOthersFails(t *testing.T) {
	t.Parallel()
	var cases []gpuCase
	for i := range 130 {
		droop := 0.75
		if i >= 50 {
			droop = 0.895
		}
		cases = append(cases, gpuCase{1e-3, drawing(droop), 1})
	}
	broken := errors.New("gone")
	measured, heated := map[any]bool{}, 0
	o := learned(t, cases, func(o *outcome, targets []*gpuTarget, _ []*measure.Job) {
		for i := range 50 {
			targets[i].Fail = func(int) error {
				if i%2 == 0 && len(measured) >= 50 {
					return broken
				}
				return nil
			}
		}
		o.session.Trace = func(v measure.Visit) {
			switch tag := v.Job.Tag.(int); {
			case v.Hot && !v.Discarded:
				measured[tag] = true
			case v.Hot && len(measured) >= 50:
				heated++
			}
		}
	})
	failed, follow := 0, 0
	for i, err := range o.errs {
		if err != nil {
			failed++
		} else if e := o.results[i].ClockSlope; i >= 50 && e != nil && *e > 0.5 {
			follow++
		}
	}
	if failed == 0 || heated == 0 || follow < 3 {
		t.Errorf("%d cases failed, others heated in %d visits, and %d follow the clock", failed, heated, follow)
	}
}

// TestLearnedClocksFollowEarlierBatches: the clock of a single case differs from window to window; those of cases of
// its load in earlier batches count, too.
func TestLearnedClocksFollowEarlierBatches(t *testing.T) {
	t.Parallel()
	all := hungry(160)
	few := all[120:126]
	run := func(cases []gpuCase, seed uint64, known []measure.CappedClock) outcome {
		return sustained(t, cases, seed, func(o *outcome, _ []*gpuTarget, jobs []*measure.Job) {
			o.gpu.FastWatts = 400
			o.session.Level = o.gpu.MaxMHz
			o.session.Capped = known
			o.session.Tuning.HotPass = hotPass
			for _, j := range jobs {
				j.Learn = true
			}
		})
	}
	// differ is the largest difference of a case's clock between batches of other seeds.
	differ := func(known []measure.CappedClock) (most float64) {
		first := run(few, 2, known)
		for seed := uint64(3); seed < 8; seed++ {
			for i, r := range run(few, seed, known).results {
				if r.ClockSlope == nil || first.results[i].ClockSlope == nil {
					t.Fatalf("case %d is not capped", i)
				}
				most = max(most, math.Abs(math.Log(r.ClockMHz/first.results[i].ClockMHz)))
			}
		}
		return most
	}
	known := run(all, 1, nil).session.Capped
	if with, without := differ(known), differ(nil); with > without/2 {
		t.Errorf("with %d clocks of earlier batches, clocks differ by %.4f; without them by %.4f", len(known), with, without)
	}
}
