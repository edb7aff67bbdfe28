package load

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/telemetry"
)

// serverPages reads the metrics pages of all servers during a phase.
type serverPages struct {
	r       *runner
	probes  []*cacheProbe
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	result  *aiperf.ServerMetrics
	series  map[seriesKey]*pageSeries
	started int64
}

// seriesKey identifies a series: its server, metric and labels.
type seriesKey struct{ url, metric, labels string }

// pageSeries are the samples of one series.
type pageSeries struct {
	labels map[string]string
	values []float64 // of a gauge
	last   []float64 // of a counter, or of a histogram its count, sum and buckets
	grown  []float64 // increase of last, over restarts of the server
	bounds []float64 // of a histogram's buckets
}

// watchServers starts to read the pages. It returns nil if the settings disable it.
func (r *runner) watchServers(ctx context.Context) *serverPages {
	interval := r.settings.ServerMetrics
	if interval == 0 {
		return nil
	}

	w := &serverPages{r: r, series: map[seriesKey]*pageSeries{}, started: r.now(),
		result: &aiperf.ServerMetrics{Configured: map[string]int{}, Errors: map[string]string{},
			Metrics: map[string]*aiperf.ServerMetric{}}}
	ctx, w.cancel = context.WithCancel(ctx)
	for _, t := range r.targets {
		p := newCacheProbe(r, t)
		path := w.read(ctx, p, metricsPaths...)
		if path == "" {
			continue // this server has no page
		}

		w.probes = append(w.probes, p)
		p.page = path
		r.spawn(&w.wg, func() {
			tick := time.NewTicker(seconds(interval))
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					w.read(ctx, p, path)
				}
			}
		})
	}
	return w
}

// stop reads the pages for the last time and returns the summary of the phase. It returns nil if no server has a page.
func (w *serverPages) stop(ctx context.Context) *aiperf.ServerMetrics {
	w.cancel()
	w.wg.Wait()
	for _, p := range w.probes {
		w.read(context.WithoutCancel(ctx), p, p.page)
	}

	if len(w.probes) == 0 {
		return nil
	}

	out := w.result
	out.From, out.To = w.started, w.r.now()
	for _, key := range slices.SortedFunc(maps.Keys(w.series), func(a, b seriesKey) int {
		return strings.Compare(a.metric+a.url+a.labels, b.metric+b.url+b.labels)
	}) {
		s, m := w.series[key], out.Metrics[key.metric]
		series := &aiperf.ServerSeries{URL: key.url, Labels: s.labels, Stats: s.stats(m.Type, float64(out.To-out.From)/1e9)}
		if m.Type == "histogram" {
			series.Buckets = map[string]float64{}
			for i, bound := range s.bounds {
				series.Buckets[fmt.Sprint(bound)] = s.grown[2+i]
			}
		}
		m.Series = append(m.Series, series)
	}
	return out
}

// read reads a page at the first of the paths that has one, and returns this path.
func (w *serverPages) read(ctx context.Context, p *cacheProbe, paths ...string) string {
	for _, path := range paths {
		status, body := p.do(ctx, http.MethodGet, path)
		if ctx.Err() != nil {
			return ""
		}

		url := p.base
		url.Path = path
		found, err := telemetry.Families(body)
		w.mu.Lock()
		switch {
		case status != http.StatusOK || len(found) == 0:
			if len(paths) == 1 {
				w.result.Errors[url.String()] = fmt.Sprintf("status %d, %d metrics", status, len(found))
			}
			w.mu.Unlock()
			continue
		case err != nil:
			w.result.Errors[url.String()] = err.Error()
		}

		w.result.Configured[url.String()]++
		for name, f := range found {
			w.add(url.String(), name, f)
		}
		w.mu.Unlock()
		return path
	}
	return ""
}

// add adds the samples of a metric. The caller holds mu.
func (w *serverPages) add(url, name string, f *dto.MetricFamily) {
	kind := map[dto.MetricType]string{dto.MetricType_COUNTER: "counter", dto.MetricType_GAUGE: "gauge",
		dto.MetricType_HISTOGRAM: "histogram", dto.MetricType_UNTYPED: "unknown"}[f.GetType()]
	if kind == "" {
		return // summaries have no increases
	}

	if w.result.Metrics[name] == nil {
		unit := ""
		for _, suffix := range []string{"seconds", "bytes", "tokens", "ratio", "percent"} {
			if strings.HasSuffix(strings.TrimSuffix(name, "_total"), "_"+suffix) {
				unit = suffix
			}
		}
		w.result.Metrics[name] = &aiperf.ServerMetric{Type: kind, Description: f.GetHelp(), Unit: unit}
	}

	for _, m := range f.GetMetric() {
		labels, text := map[string]string{}, ""
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
			text += l.GetName() + "\x00" + l.GetValue() + "\x00"
		}

		key := seriesKey{url, name, text}
		s := w.series[key]
		if s == nil {
			s = &pageSeries{labels: labels}
			w.series[key] = s
		}

		switch kind {
		case "histogram":
			h := m.GetHistogram()
			now := []float64{float64(h.GetSampleCount()), h.GetSampleSum()}
			s.bounds = s.bounds[:0]
			for _, b := range h.GetBucket() {
				now, s.bounds = append(now, float64(b.GetCumulativeCount())), append(s.bounds, b.GetUpperBound())
			}
			s.grow(now)
		case "counter":
			s.grow([]float64{m.GetCounter().GetValue()})
		default:
			if v := m.GetGauge().GetValue() + m.GetUntyped().GetValue(); !math.IsNaN(v) && !math.IsInf(v, 0) {
				s.values = append(s.values, v)
			}
		}
	}
}

// grow adds the increase since the last sample. If the first value decreased, the server has restarted at 0.
func (s *pageSeries) grow(now []float64) {
	if len(s.grown) != len(now) {
		s.grown = make([]float64, len(now))
		s.last = now
		return
	}

	restarted := now[0] < s.last[0]
	for i, v := range now {
		if restarted {
			s.grown[i] += v
		} else {
			s.grown[i] += v - s.last[i]
		}
	}
	s.last = now
}

// stats returns the statistics of a series.
func (s *pageSeries) stats(kind string, seconds float64) map[string]float64 {
	switch kind {
	case "histogram":
		return aiperf.HistogramStats(s.grown[0], s.grown[1], seconds, s.bounds, s.grown[2:])
	case "counter":
		out := map[string]float64{"total": s.grown[0]}
		if seconds > 0 {
			out["rate"] = s.grown[0] / seconds
		}
		return out
	}
	return aiperf.GaugeStats(s.values)
}
