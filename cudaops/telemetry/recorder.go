// Package telemetry monitors GPUs during a measurement.
//
// # Sources
//
// A [Source] is a DCGM exporter (Prometheus text over HTTP) or the local management library (NVML). A
// [Recorder] scrapes all its sources periodically without drift, each scrape with a deadline, and keeps the
// samples. Errors of a source are never fatal. Lost scrapes and errors are part of the result.
//
// # Windows
//
// [Recorder.Window] summarizes the time between two moments, usually a case without its warm-up: gauges as
// statistics over the samples, counters as the sum of their increases, XIDs as the set of codes. Means over time and
// increases are null if the samples do not cover the window.
//
// # Devices
//
// A device is identified by its UUID and, for a MIG slice, by the id of the slice. A device that is
// reported by several sources is counted once.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of [Options.Interval] and [Options.Timeout], and the default of the former.
const (
	MinInterval     = 10 * time.Millisecond
	MaxInterval     = 300 * time.Second
	DefaultInterval = 333 * time.Millisecond
)

// Options of a [Recorder].
type Options struct {
	Set      Set
	Interval time.Duration // 0 means DefaultInterval

	// Timeout bounds a scrape. 0 means two seconds or six intervals, whichever is longer.
	Timeout time.Duration
}

// Recorder scrapes sources until it is stopped. It is safe for concurrent use.
type Recorder struct {
	set      Set
	interval time.Duration
	timeout  time.Duration
	states   []*state
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu     sync.Mutex
	series map[string]map[int]*series // device -> source -> series
}

// state is the state of a source.
type state struct {
	src    Source
	byUser bool
	force  chan chan struct{}

	// Below mu of the recorder.
	ok      int
	first   error // error of the first scrape
	failing bool  // the last scrape failed
	events  []event
	errs    map[string]*failures // by kind
}

// failures counts the errors of one kind. Their texts may differ, so only the first one is kept.
type failures struct {
	first string
	n     int
}

// event is a scrape that failed or had missing values.
type event struct {
	at           int64
	lost, blanks int
	kind, detail string // of an error
}

// Start scrapes all sources once, concurrently, and continues to scrape those that responded in the
// background. byUser are sources named by the user. They are retried and reported even if they do not
// respond. Start returns within the deadline of one scrape.
func Start(ctx context.Context, o Options, defaults, byUser []Source) *Recorder {
	if o.Set == nil {
		o.Set = Builtin()
	}

	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}

	o.Interval = min(max(o.Interval, MinInterval), MaxInterval)
	if o.Timeout == 0 {
		o.Timeout = max(2*time.Second, 6*o.Interval)
	}

	ctx, cancel := context.WithCancel(ctx)
	r := &Recorder{set: o.Set, interval: o.Interval, timeout: o.Timeout, cancel: cancel,
		series: map[string]map[int]*series{}}

	for i, list := range [][]Source{defaults, byUser} {
		for _, s := range list {
			r.states = append(r.states, &state{src: s, byUser: i == 1, force: make(chan chan struct{}),
				errs: map[string]*failures{}})
		}
	}

	var probes sync.WaitGroup
	for i, st := range r.states {
		probes.Go(func() { st.first = r.scrape(ctx, i, st) })
	}

	probes.Wait()
	for i, st := range r.states {
		// Do not retry default sources that do not exist.
		if errors.Is(st.first, ErrUseless) || st.first != nil && !st.byUser {
			continue
		}
		r.wg.Go(func() { r.loop(ctx, i, st) })
	}

	return r
}

// loop scrapes at the ticks of a ticker, which do not drift. If a scrape takes longer than the interval,
// the missed ticks are counted as lost.
func (r *Recorder) loop(ctx context.Context, i int, st *state) {
	t := time.NewTicker(r.interval)
	defer t.Stop()

	for {
		var done chan struct{}
		select {
		case <-ctx.Done():
			return
		case done = <-st.force:
		case <-t.C:
		}

		begin := time.Now()
		err := r.scrape(ctx, i, st)
		if missed := int(time.Since(begin) / r.interval); missed > 0 && ctx.Err() == nil {
			r.mu.Lock()
			st.note(event{at: time.Now().UnixNano(), lost: missed, kind: "a scrape took longer than the interval"})
			r.mu.Unlock()
		}

		if done != nil {
			close(done)
		}

		if errors.Is(err, ErrUseless) {
			return
		}
	}
}

// scrape takes one sample.
func (r *Recorder) scrape(ctx context.Context, i int, st *state) error {
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	page, err := scrapeOnce(limited, st.src, r.timeout)
	at := time.Now().UnixNano()

	if err != nil && ctx.Err() != nil {
		return err // stopped, not lost
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if st.failing = err != nil; st.failing {
		e := event{at: at, lost: 1, kind: err.Error()}
		if errors.Is(err, errCut) {
			e.kind, e.detail = errCut.Error(), strings.TrimPrefix(err.Error(), errCut.Error()+" ")
		}
		st.note(e)
		return err
	}

	if page.Blanks > 0 {
		st.note(event{at: at, blanks: page.Blanks})
	}
	if page.Malformed != "" {
		st.note(event{at: at, kind: "a part of the page was not read", detail: page.Malformed})
	}

	st.ok++
	for _, reading := range page.Readings {
		key := reading.GPU.key(st.src.Name())
		by := r.series[key]
		if by == nil {
			by = map[int]*series{}
			r.series[key] = by
		}
		if by[i] == nil {
			by[i] = &series{gpu: reading.GPU, columns: map[string][]float64{}}
		}
		by[i].add(at, reading.Values)
	}

	return nil
}

// scrapeOnce enforces the deadline even if the source ignores it.
func scrapeOnce(ctx context.Context, s Source, timeout time.Duration) (page Page, err error) {
	type answer struct {
		page Page
		err  error
	}

	c := make(chan answer, 1)
	go func() {
		p, err := s.Scrape(ctx)
		c <- answer{p, err}
	}()

	select {
	case a := <-c:
		page, err = a.page, a.err
	case <-ctx.Done():
		err = ctx.Err()
	}

	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no response within %s; timeout allows more", timeout)
	}
	return page, err
}

// note records an event of a source. The caller holds mu of the recorder.
func (st *state) note(e event) {
	if e.kind != "" {
		f := st.errs[e.kind]
		if f == nil {
			f = &failures{first: e.kind}
			if e.detail != "" {
				f.first += ": " + e.detail
			}
			st.errs[e.kind] = f
		}
		f.n++
	}

	if e.lost > 0 || e.blanks > 0 {
		st.events = append(st.events, e)
	}
}

// Mark takes a sample of each source now. It is called at the start and the end of a window, so that
// counters are exact. It returns when all sources have responded or after their timeout. It does not wait for sources
// whose last scrape failed.
func (r *Recorder) Mark(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.timeout) // a scrape may be in progress
	defer cancel()
	var all sync.WaitGroup

	for _, st := range r.states {
		r.mu.Lock()
		idle := st.failing // or not scraped any more
		r.mu.Unlock()
		if idle {
			continue
		}

		all.Go(func() {
			done := make(chan struct{})
			select {
			case st.force <- done:
			case <-ctx.Done():
				return
			}
			select {
			case <-done:
			case <-ctx.Done():
			}
		})
	}

	all.Wait()
}

// Stop ends the recording. Recorded samples remain available.
func (r *Recorder) Stop() {
	r.cancel()
	r.wg.Wait()
}

// Interval returns the time between two scrapes of a source.
func (r *Recorder) Interval() time.Duration { return r.interval }

// Forget drops samples before a moment, so that memory is only needed for windows that have not been
// evaluated.
func (r *Recorder) Forget(before time.Time) {
	at := before.UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()

	for _, by := range r.series {
		for _, s := range by {
			s.trim(at)
		}
	}

	for _, st := range r.states {
		st.events = slices.DeleteFunc(st.events, func(e event) bool { return e.at < at })
	}
}

// Status is the state of a source.
type Status struct {
	Name    string         `json:"source"`
	Default bool           `json:"default"`
	OK      bool           `json:"ok"` // it responded at least once
	Scrapes int            `json:"scrapes"`
	Errors  map[string]int `json:"errors,omitempty"`
}

// Sources returns the state of all sources except default sources that never responded.
func (r *Recorder) Sources() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Status
	for _, st := range r.states {
		s := Status{Name: st.src.Name(), Default: !st.byUser, OK: st.ok > 0, Scrapes: st.ok, Errors: map[string]int{}}
		for _, f := range st.errs {
			s.Errors[f.first] = f.n
		}
		if s.OK || !s.Default {
			out = append(out, s)
		}
	}

	return out
}
