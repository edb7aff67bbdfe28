package model_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"aicplan/stages/report/model"
)

// TestMedianInterval holds the interval against the table of the sign test, and
// against what it promises: to have the median in 95 of 100 samples.
func TestMedianInterval(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][2]int{6: {1, 6}, 10: {2, 9}, 20: {6, 15}, 50: {18, 33}} {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(i + 1)
		}
		if got := model.MedianInterval(v); got == nil || *got != [2]float64{float64(want[0]), float64(want[1])} {
			t.Errorf("of %d: %v, want the ranks %v", n, got, want)
		}
	}
	if got := model.MedianInterval([]float64{1, 2, 3, 4, 5}); got != nil {
		t.Errorf("five values cannot say: %v", *got)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	in, trials := 0, 400
	for range trials {
		v := make([]float64, 2001)
		for i := range v {
			v[i] = rng.ExpFloat64()
		}
		slices.Sort(v)
		if got := model.MedianInterval(v); got[0] <= math.Ln2 && math.Ln2 <= got[1] {
			in++
		}
	}
	if in < 370 || in == trials {
		t.Errorf("%d of %d intervals have the median", in, trials)
	}
}

// TestChange: rows are held against the try before, by more than noise.
func TestChange(t *testing.T) {
	t.Parallel()
	in := input(t)
	r := build(t, in)
	now := r.Tables[0].Facets.Latency
	if r.Tables[0].Change != nil {
		t.Fatal("a change without anything before")
	}
	before := make([]model.Earlier, len(now))
	on := func(day int) int64 { return time.Date(2026, 11, day, 10, 0, 0, 0, time.UTC).UnixNano() }
	for i := range before {
		before[i].Value = math.NaN()
		if i < 40 {
			before[i] = model.Earlier{Value: now[i] / 1.001, Noise: math.NaN(), At: on(20)}
		}
	}
	before[3] = model.Earlier{Value: now[3] / 2, Noise: 0.01, At: on(21)}
	before[4] = model.Earlier{Value: now[4] * 2, Noise: 0.9, At: on(20)} // may be noise
	in.Tables[0].Before = before
	r = build(t, in)
	c := r.Tables[0].Change
	if c == nil || c.Rows != 40 || c.Slower != 1 || c.Faster != 0 || !(math.Abs(c.Median-1.001) <= 1e-9) || c.Interval == nil {
		t.Fatalf("%+v", c)
	}
	if len(c.Worst) != 1 || !(math.Abs(c.Worst[0].Ratio-2) <= 1e-9) || !strings.Contains(c.Worst[0].Case, "m=") {
		t.Errorf("worst %+v", c.Worst)
	}
	if text := c.Text(); text != "40 rows were measured before, the last time 2026-11-21 10:00 UTC: the median of now over then is 1.001 (95 % confidence: 1.001 to 1.001); by more than their noise and 2 %, 1 slower." {
		t.Error(text)
	}
	if !slices.ContainsFunc(r.Glance, func(s string) bool { return strings.HasPrefix(s, "gemm_perf: 40 rows were measured before") }) {
		t.Errorf("at a glance: %q", r.Glance)
	}
}

// TestRatesAndWorst: rates follow from the row's least work, and the rows to look
// at are the noisiest and the slowest against the speed of light.
func TestRatesAndWorst(t *testing.T) {
	t.Parallel()
	r := build(t, input(t))
	g := r.Tables[0]
	f := g.Facets
	i := slices.IndexFunc(f.Latency, func(v float64) bool { return v > 0 })
	if len(g.Rates) != 2 || g.Rates[0].Unit != "FLOP/s" || g.Rates[1].Unit != "B/s" {
		t.Fatalf("rates %+v", g.Rates)
	}
	if got, want := f.Rates.Flops[i], f.Size[i]/(f.Latency[i]*1e-3); !(math.Abs(got/want-1) <= 1e-12) {
		t.Errorf("row %d does %v FLOP/s, want %v", i, got, want)
	}
	noisy, far := 0, 0
	for _, w := range g.Worst {
		switch {
		case w.Why == "noisy":
			noisy++
			if !(*w.Noise >= g.Noise.P50) {
				t.Errorf("%+v is not noisy", w)
			}
		case w.Light != nil:
			far++
			if !(*w.Light <= g.Light.P50) {
				t.Errorf("%+v is not far", w)
			}
		}
		if w.Case == "" || w.Rate == "" || w.Clock == nil {
			t.Errorf("%+v lacks what explains it", w)
		}
	}
	if noisy != 5 || far != 5 {
		t.Errorf("%d noisy, %d far", noisy, far)
	}
	for v, want := range map[float64]string{1.5e12: "1.500 TB/s", 2e9: "2.000 GB/s", 900: "900.0 B/s"} {
		if got := model.RateText(v, "B/s"); !strings.HasSuffix(got, strings.Fields(want)[1]) {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
