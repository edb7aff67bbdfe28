package telemetry

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/nvml"
)

func near(a *float64, b float64) bool { return a != nil && math.Abs(*a-b) < 1e-9*max(1, math.Abs(b)) }

// fake is a scripted source.
type fake struct {
	name   string
	scrape func(ctx context.Context) (Page, error)
}

func (f fake) Name() string                             { return f.name }
func (f fake) Scrape(ctx context.Context) (Page, error) { return f.scrape(ctx) }

func page(uuid string, values map[string]float64) Page {
	return Page{Readings: []Reading{{GPU: GPU{Index: "0", UUID: uuid}, Values: values}}}
}

// steady draws constant power. Its counter starts at start and restarts at 0 after reset.
func steady(name, uuid string, watts, start float64, reset time.Duration) fake {
	begin := time.Now()
	return fake{name, func(context.Context) (Page, error) {
		at := time.Since(begin)
		e := start + watts*at.Seconds()
		if reset > 0 && at >= reset {
			e = watts * (at - reset).Seconds()
		}
		return page(uuid, map[string]float64{Power: watts, Energy: e}), nil
	}}
}

func TestWindowOfSteadyPower(t *testing.T) {
	t.Parallel()
	for _, reset := range []time.Duration{0, 2*time.Second + 100*time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := Start(t.Context(), Options{Interval: 100 * time.Millisecond}, nil,
				[]Source{steady("a", "GPU-a", 300, 1e6, reset)})
			defer r.Stop()
			time.Sleep(1033 * time.Millisecond) // warm-up
			r.Mark(t.Context())
			from := time.Now()
			time.Sleep(2047 * time.Millisecond)
			to := time.Now()
			r.Mark(t.Context())
			w := r.Window(from, to)
			g := w.GPUs[0]
			if len(w.GPUs) != 1 || w.Lost != 0 || g.Samples < 20 || g.Stale {
				t.Fatalf("%+v %+v", w, g)
			}
			e := g.Get(Energy)
			// A reset loses the energy since the last sample before it.
			lost := 0.0
			if reset > 0 {
				lost = 300 * 0.1
			}
			if !(*e.Delta >= 300*2.047-lost-1e-6 && *e.Delta <= 300*2.047+1e-6) {
				t.Errorf("reset %s: %v J", reset, *e.Delta)
			}
			if !near(g.EnergyByPower, 300*2.047) || math.Abs(g.Get(Power).Values["avg"]-300) > 1e-9 ||
				!near(g.Get(Power).TimeAvg, 300) || g.Get(Power).Values["std"] > 1e-9 {
				t.Errorf("%+v", g.Get(Power))
			}
		})
	}
}

// TestMetricWithoutReadingsIsUnknown checks that a metric which a source reports only at the start of a window has no
// mean over time and no increase.
func TestMetricWithoutReadingsIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := Start(t.Context(), Options{Interval: 100 * time.Millisecond}, nil,
			[]Source{fake{"a", func(context.Context) (Page, error) {
				at := time.Since(begin).Seconds()
				v := map[string]float64{SMClock: 1000 + at}
				if at < 1 {
					v[Power], v[Energy] = 300, 300*at
				}
				return page("GPU-a", v), nil
			}}})
		defer r.Stop()
		from := time.Now()
		time.Sleep(10 * time.Second)
		g := r.Window(from, time.Now()).GPUs[0]
		if p := g.Get(Power); p.TimeAvg != nil || g.EnergyByPower != nil || p.Values["avg"] != 300 {
			t.Errorf("power %+v, energy by power %v", p, g.EnergyByPower)
		}
		if e := g.Get(Energy); e.Delta != nil {
			t.Errorf("energy %v", *e.Delta)
		}
		if c := g.Get(SMClock); c.TimeAvg == nil {
			t.Errorf("clock %+v", c)
		}
	})
}

func TestGPUOfSeveralSourcesCountsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := Start(t.Context(), Options{}, []Source{steady("d", "GPU-A", 100, 0, 0)},
			[]Source{steady("u", "gpu-a", 100, 0, 0), steady("v", "GPU-b", 50, 0, 0)})
		defer r.Stop()
		from := time.Now()
		time.Sleep(3 * time.Second)
		if w := r.Window(from, time.Now()); len(w.GPUs) != 2 || w.GPUs[0].Source != "d" {
			t.Errorf("%+v", w)
		}
	})
}

// TestHangingSourceDoesNotBlock checks that a hanging source delays a run by at most the timeout of a scrape, at
// the start, at the ends of a window and at the end.
func TestHangingSourceDoesNotBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		hang := fake{"hang", func(ctx context.Context) (Page, error) {
			if n.Add(1) > 3 {
				<-ctx.Done()
				return Page{}, ctx.Err()
			}
			return page("GPU-h", map[string]float64{Power: 1}), nil
		}}
		dead := fake{"dead", func(ctx context.Context) (Page, error) { <-ctx.Done(); return Page{}, ctx.Err() }}
		begin := time.Now()
		r := Start(t.Context(), Options{Timeout: time.Second}, nil, []Source{hang, dead, steady("a", "GPU-a", 100, 0, 0)})
		if d := time.Since(begin); d > time.Second {
			t.Errorf("start took %s", d)
		}
		from := time.Now()
		time.Sleep(10 * time.Second)
		to := time.Now()
		r.Mark(t.Context())
		if d := time.Since(to); d > time.Second {
			t.Errorf("mark took %s", d)
		}
		w := r.Window(from, to)
		if w.Lost < 30 || len(w.GPUs) != 2 || w.GPUs[0].GPU.UUID != "GPU-a" && w.GPUs[1].GPU.UUID != "GPU-a" {
			t.Errorf("lost %d: %+v", w.Lost, w)
		}
		for _, s := range w.Sources {
			if s.Name == "hang" && s.Errors["no response within 1s; timeout allows more"] == 0 || s.Name == "dead" && s.OK {
				t.Errorf("%+v", s)
			}
		}
		begin = time.Now()
		r.Stop()
		if d := time.Since(begin); d > time.Second {
			t.Errorf("stop took %s", d)
		}
	})
}

func TestSilentDefaultsAreNotReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		refused := fake{"refused", func(context.Context) (Page, error) {
			calls++
			return Page{},
				errors.New("connection refused")
		}}
		r := Start(t.Context(), Options{}, []Source{refused}, nil)
		from := time.Now()
		time.Sleep(5 * time.Second)
		r.Mark(t.Context())
		r.Stop()
		if w := r.Window(from, time.Now()); calls != 1 || w.Lost != 0 || len(w.Sources) != 0 || len(w.GPUs) != 0 {
			t.Errorf("%d calls, %+v", calls, w)
		}
	})
}

// TestTickerDoesNotDrift checks that scrapes of 50 ms stay on a tick of 100 ms.
func TestTickerDoesNotDrift(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		slow := fake{"slow", func(ctx context.Context) (Page, error) {
			n.Add(1)
			select {
			case <-time.After(50 * time.Millisecond):
				return page("GPU-a", map[string]float64{Power: 1}), nil
			case <-ctx.Done():
				return Page{}, ctx.Err()
			}
		}}
		r := Start(t.Context(), Options{Interval: 100 * time.Millisecond}, nil, []Source{slow})
		time.Sleep(10 * time.Second)
		r.Stop()
		if n := n.Load(); n < 99 || n > 102 {
			t.Errorf("%d scrapes in 10 s", n)
		}
	})
}

func TestStaleAndCodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		src := fake{"a", func(context.Context) (Page, error) {
			p := page("GPU-a", map[string]float64{Power: 100 + float64(time.Since(begin)/(30*time.Second))})
			switch s := time.Since(begin).Seconds(); {
			case s > 2:
				p.Readings[0].Values[XID] = 79
			case s > 1:
				p.Readings[0].Values[XID] = 43
			default:
				p.Readings[0].Values[XID] = 0
			}
			return p, nil
		}}
		r := Start(t.Context(), Options{}, nil, []Source{src})
		defer r.Stop()
		from := time.Now()
		time.Sleep(20 * time.Second)
		g := r.Window(from, time.Now()).GPUs[0]
		if !g.Stale || math.Abs(g.Get(Power).Values["avg"]-100) > 1e-9 || !slices.Equal(g.Get(XID).Codes, []int64{43, 79}) ||
			g.Get(Energy) != nil {
			t.Errorf("%+v %+v", g, g.Get(XID))
		}
		// Earlier samples are dropped, and later windows remain correct.
		r.Forget(time.Now().Add(-5 * time.Second))
		if g := r.Window(from, time.Now()).GPUs[0]; g.Samples > 17 || g.Samples < 14 {
			t.Errorf("%d samples", g.Samples)
		}
		if w := r.Window(from.Add(-time.Hour), from.Add(-time.Minute)); len(w.GPUs) != 0 {
			t.Errorf("a window without samples has devices: %+v", w.GPUs[0])
		}
	})
}

// TestCounterSplits checks that the increases of parts of a window add up to that of the window.
func TestCounterSplits(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var times []int64
		var col []float64
		at, v := int64(1000), rng.Float64()*100
		for range 2 + rng.IntN(20) {
			at += 1 + rng.Int64N(50)
			if v += rng.Float64() * 10; rng.IntN(8) == 0 {
				v = rng.Float64()
			}
			times, col = append(times, at), append(col, v)
		}
		from, to := times[0], times[len(times)-1]
		mid := times[rng.IntN(len(times))]
		all := increase(times, col, from, to)
		sum := 0.0
		for _, part := range []*float64{increase(times, col, from, mid), increase(times, col, mid, to)} {
			if part != nil {
				sum += *part
			}
		}
		if !near(all, sum) {
			t.Fatalf("%v is not %v", all, sum)
		}
	}
}

func TestNVML(t *testing.T) {
	t.Parallel()
	d := cudatest.H200(1)
	d.Util = nvml.Utilization{GPU: 97, Memory: 40}
	d.Fail = map[string]error{"Temperature": nvml.ErrUnsupported}
	p, err := NewNVML(&cudatest.NVML{GPUs: []*cudatest.GPU{d}}, "n1").Scrape(t.Context())
	if err != nil || len(p.Readings) != 1 {
		t.Fatal(err)
	}
	v := p.Readings[0].Values
	if _, ok := v[Temperature]; ok || v[Power] != 110 || v[Utilization] != 97 ||
		!(math.Abs(v["nvidia_memory_total"]-150.75482) <= 1e-5) || p.Readings[0].GPU.Hostname != "n1" {
		t.Errorf("%+v", p)
	}
	if _, err := NewNVML(&cudatest.NVML{}, "n1").Scrape(t.Context()); !errors.Is(err, ErrUseless) {
		t.Error(err)
	}
}

// hanging is a driver that does not respond until it is released.
type hanging struct {
	cudatest.NVML
	asked   atomic.Int32
	release chan struct{}
}

func (h *hanging) Devices() ([]nvml.Device, error) {
	h.asked.Add(1)
	<-h.release
	return h.NVML.Devices()
}

// A hanging driver is called only once, even if several scrapes time out, because each call would block a
// thread.
func TestHangingDriverIsCalledOnce(t *testing.T) {
	t.Parallel()
	api := &hanging{NVML: cudatest.NVML{GPUs: []*cudatest.GPU{cudatest.H200(0)}}, release: make(chan struct{})}
	src := NewNVML(api, "n1")
	given, cancel := context.WithCancel(t.Context())
	cancel()
	first := make(chan error, 1)
	go func() {
		_, err := src.Scrape(t.Context())
		first <- err
	}()
	for api.asked.Load() == 0 {
		runtime.Gosched()
	}
	for range 5 {
		if _, err := src.Scrape(given); err == nil || !strings.Contains(err.Error(), "has not answered the question before") {
			t.Error(err)
		}
	}
	close(api.release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if p, err := src.Scrape(t.Context()); err != nil || len(p.Readings) != 1 || api.asked.Load() != 2 {
		t.Errorf("%v after %d questions", err, api.asked.Load())
	}
}
