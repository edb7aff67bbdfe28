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

	dto "github.com/prometheus/client_model/go"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/telemetry"
)

// serverPages reads the metrics pages of all servers during a phase.
type serverPages struct {
	probes  []*cacheProbe
	stops   []func() // of the repeated reading
	mu      sync.Mutex
	result  *aiperf.ServerMetrics
	series  map[seriesKey]*pageSeries
	started int64
	whole   map[string]bool // URLs whose first page was read completely
	lost    map[string]bool // URLs whose last page could not be read
	damaged bool            // a part of a page was not read
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

	late    bool // it was not in the first page, so it starts at 0
	unknown bool // the first page has no finite value of a counter or histogram, or ends before it
}

// watchServers reads the pages, and starts to read them again in the interval of the settings.
func (r *runner) watchServers(ctx context.Context) *serverPages {
	w := newServerPages()
	w.started = r.now()
	for _, t := range r.targets {
		p := newCacheProbe(r, t)
		if p.page = w.read(ctx, p, p.paths(metricsPaths...)...); p.page == "" {
			continue
		}

		w.probes = append(w.probes, p)
		if s := r.settings.ServerMetrics; s > 0 {
			w.stops = append(w.stops, r.every(ctx, seconds(s), func(ctx context.Context) { w.read(ctx, p, p.page) }))
		}
	}
	return w
}

func newServerPages() *serverPages {
	return &serverPages{series: map[seriesKey]*pageSeries{}, whole: map[string]bool{}, lost: map[string]bool{},
		result: &aiperf.ServerMetrics{Configured: map[string]int{},
			Errors: map[string]string{}, Metrics: map[string]*aiperf.ServerMetric{}}}
}

// stop reads the pages for the last time.
func (w *serverPages) stop(ctx context.Context) {
	for _, stop := range w.stops {
		stop()
	}
	for _, p := range w.probes {
		w.read(context.WithoutCancel(ctx), p, p.page)
	}
}

// summary returns the summary of a phase that ended at a time, or nil if no server has a page.
func (w *serverPages) summary(end int64) *aiperf.ServerMetrics {
	if len(w.probes) == 0 {
		return nil
	}

	out := w.result
	out.From, out.To = w.started, end
	for _, key := range slices.SortedFunc(maps.Keys(w.series), func(a, b seriesKey) int {
		return strings.Compare(a.metric+a.url+a.labels, b.metric+b.url+b.labels)
	}) {
		s, m := w.series[key], out.Metrics[key.metric]
		if s.grown == nil && s.values == nil || s.grown != nil && w.lost[key.url] {
			continue // no sample is finite, or the increase until the end is unknown
		}

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

// read reads a page at the first of the paths that has one, and returns this path, or "".
func (w *serverPages) read(ctx context.Context, p *cacheProbe, paths ...string) string {
	for _, path := range paths {
		status, body := p.do(ctx, http.MethodGet, path)
		if ctx.Err() != nil {
			return ""
		}

		url := p.base
		url.Path = path
		if w.take(url.String(), status, body, len(paths) == 1) {
			return path
		}
	}
	return ""
}

// take adds the samples of a page. It returns false if the response is no page, which is an error if the server has
// one.
func (w *serverPages) take(url string, status int, body []byte, known bool) bool {
	found, err := telemetry.Families(body)
	w.mu.Lock()
	defer w.mu.Unlock()

	if status != http.StatusOK || err != nil && len(found) == 0 {
		if known {
			w.result.Errors[url], w.lost[url] = fmt.Sprintf("status %d, %d metrics", status, len(found)), true
			if status == 0 {
				w.result.Errors[url] = fmt.Sprintf("no page within %v and %d MiB", probeTimeout, maxMetrics>>20)
			}
		}
		return false
	}

	if err != nil {
		w.result.Errors[url], w.damaged = err.Error(), true
	}

	w.lost[url] = false
	if w.result.Configured[url]++; w.result.Configured[url] == 1 {
		w.whole[url] = err == nil
	}
	for name, f := range found {
		w.add(url, name, f)
	}
	return true
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
		w.result.Metrics[name] = &aiperf.ServerMetric{Type: kind, Description: f.GetHelp(), Unit: unit,
			Series: []*aiperf.ServerSeries{}}
	}

	if known := w.result.Metrics[name].Type; kind != known {
		w.result.Errors[url] = fmt.Sprintf("%s is a %s here and a %s in an earlier page", name, kind, known)
		w.damaged = true
		return
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
			s = &pageSeries{labels: labels, late: w.result.Configured[url] > 1}
			s.unknown = s.late && !w.whole[url] && kind != "gauge" && kind != "unknown"
			w.series[key] = s
		}

		switch kind {
		case "histogram":
			h := m.GetHistogram()
			now, bounds := []float64{float64(h.GetSampleCount()), h.GetSampleSum()}, []float64(nil)
			for _, b := range h.GetBucket() {
				now, bounds = append(now, float64(b.GetCumulativeCount())), append(bounds, b.GetUpperBound())
			}
			if s.grow(now) {
				s.bounds = bounds
			}
		case "counter":
			s.grow([]float64{valueOf(m)})
		default:
			if v := valueOf(m); !math.IsNaN(v) && !math.IsInf(v, 0) {
				s.values = append(s.values, v)
			}
		}
	}
}

// valueOf returns the value of a sample, or NaN if the page ends before it.
func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Untyped != nil:
		return m.Untyped.GetValue()
	}
	return math.NaN()
}

// grow adds the increase since the last sample. If the first value decreased, the server has restarted at 0. It returns
// false for a sample that is not finite, which is left out.
func (s *pageSeries) grow(now []float64) bool {
	if slices.ContainsFunc(now, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		s.unknown = s.unknown || s.grown == nil && !s.late
		return false
	}

	if s.unknown {
		return false
	}

	if len(s.grown) != len(now) {
		if s.last = now; s.late && s.grown == nil {
			s.last = make([]float64, len(now))
		}
		s.grown = make([]float64, len(now))
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
	return true
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
