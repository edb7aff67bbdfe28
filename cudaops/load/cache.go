package load

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Cache reports how the server's prefix cache was used during the run.
type Cache struct {
	// Reset is true if the server confirmed that it cleared its cache before the run.
	Reset bool
	// Queried and Hit count the tokens that the server looked up and found in the cache during the
	// profiling phase. They are NaN if the server does not report them.
	Queried, Hit float64
}

// HitRate returns the fraction of looked-up tokens that were found in the cache, from 0 to 1. It returns
// NaN if the server does not report them.
func (c Cache) HitRate() float64 {
	if c.Queried > 0 {
		return c.Hit / c.Queried
	}
	return math.NaN()
}

// resetPaths are the endpoints that clear the cache: vLLM (in development mode) and SGLang.
var resetPaths = []string{"/reset_prefix_cache", "/flush_cache"}

// cacheCounters are the names of the token counters of cache lookups, per server type and version.
var cacheCounters = []struct{ queried, hit string }{
	{"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"},
	{"vllm:prefix_cache_queries", "vllm:prefix_cache_hits"},
	{"vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_hits_total"},
	{"sglang:prompt_tokens_total", "sglang:cached_tokens_total"},
}

// Queue reports the server's mean times per request of the profiling phase in ms. A field is NaN if the
// server does not report it.
type Queue struct {
	// Waited is the time from accepting a request to running it for the first time.
	Waited float64
	// Prefill is the time from there to the first token.
	Prefill float64
}

// queueHistograms are the names of the histograms of request times in seconds, per server type.
var queueHistograms = []struct{ waited, prefill string }{
	{"vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds"},
	{"sglang:queue_time_seconds", ""},
	{"trtllm_request_queue_time_seconds", "trtllm_request_prefill_time_seconds"},
}

// metricsPaths are the endpoints with Prometheus metrics: first that of vLLM and SGLang, then that of
// TensorRT-LLM, which serves other statistics at /metrics.
var metricsPaths = []string{"/metrics", "/prometheus/metrics"}

// probeTimeout bounds each request of the probe.
const probeTimeout = 2 * time.Second

// maxMetrics limits the size of a metrics page in bytes.
const maxMetrics = 16 << 20

// A cacheProbe clears the server's prefix cache and reads its cache and queue metrics.
type cacheProbe struct {
	r      *runner
	client *http.Client
	base   url.URL
	key    string
	before map[string]float64
	page   string // path of the metrics page, if it is known
}

func newCacheProbe(r *runner, to *target) *cacheProbe {
	key, _ := r.settings.key(r.options.Getenv) // newRunner has validated the key
	t := &http.Transport{DialContext: r.options.Dial, TLSClientConfig: r.tls.Clone(), DisableKeepAlives: true}
	if to.proxy != nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	return &cacheProbe{r: r, key: key, base: url.URL{Scheme: to.url.Scheme, Host: to.url.Host},
		client: &http.Client{Transport: t, Timeout: probeTimeout, CheckRedirect: noRedirect}}
}

func (p *cacheProbe) do(ctx context.Context, method, path string) (int, []byte) {
	return p.send(ctx, method, path, nil)
}

// noRedirect makes a client return redirects, whose target would get the API key.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// send does one request and returns the status and the body. The status is 0 if the request fails or the
// body exceeds maxMetrics.
func (p *cacheProbe) send(ctx context.Context, method, path string, content io.Reader) (int, []byte) {
	u := p.base
	u.Path = path
	req, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return 0, nil
	}

	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}

	res, err := p.client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxMetrics+1))
	if err != nil || len(body) > maxMetrics { // sums over a truncated page would be wrong
		return 0, nil
	}

	return res.StatusCode, body
}

// reset clears the server's cache and records the success in c. It returns an error only if the settings
// require a reset and the server does not support one.
func (p *cacheProbe) reset(ctx context.Context, c *Cache) error {
	c.Queried, c.Hit = math.NaN(), math.NaN()
	if p.r.settings.CacheReset == ResetNever {
		return nil
	}

	for _, path := range resetPaths {
		if status, _ := p.do(ctx, http.MethodPost, path); status == http.StatusOK {
			c.Reset = true
			return nil
		}
	}

	if p.r.settings.CacheReset == ResetRequire {
		return fmt.Errorf("cache_reset = %q, and the server has neither %s; start vLLM with VLLM_SERVER_DEV_MODE=1, or set cache_reset = %q",
			ResetRequire, strings.Join(resetPaths, " nor "), ResetAuto)
	}

	return nil
}

func (p *cacheProbe) begin(ctx context.Context) { p.before = p.counters(ctx) }

func (p *cacheProbe) end(ctx context.Context, c *Cache, q *Queue) {
	if p.before == nil {
		return
	}
	p.gains(p.counters(context.WithoutCancel(ctx)), c, q)
}

// gains sets c and q to the increase of the counters since the phase began. It leaves them unchanged if the
// server restarted in between.
func (p *cacheProbe) gains(after map[string]float64, c *Cache, q *Queue) {
	if started := p.before[processStart]; started != after[processStart] {
		return // the counters belong to a different server process
	}

	for _, names := range queueHistograms {
		if waited := p.mean(names.waited, after); !math.IsNaN(waited) {
			q.Waited, q.Prefill = waited, p.mean(names.prefill, after)
			break
		}
	}

	for _, names := range cacheCounters {
		q0 := p.before[names.queried] // 0 if the server has not created the counter yet
		q1, ok := after[names.queried]
		if !ok || q1 < q0 {
			continue // the server restarted and lost its counters
		}
		hit := after[names.hit] - p.before[names.hit]
		if hit < 0 || hit > q1-q0 {
			continue // the two counters do not cover the same lookups
		}
		c.Queried, c.Hit = q1-q0, hit
		return
	}
}

// mean returns the mean of a histogram of seconds over the phase, in ms per request, or NaN if the
// histogram is missing or did not grow. A histogram that is absent before the phase counts as 0, because
// servers create labeled series at the first request.
func (p *cacheProbe) mean(name string, after map[string]float64) float64 {
	s0 := p.before[name+"_sum"]
	s1, ok := after[name+"_sum"]
	n := after[name+"_count"] - p.before[name+"_count"]
	if !ok || s1 < s0 || !(n > 0) {
		return math.NaN()
	}
	return (s1 - s0) / n * 1e3
}

// processStart is the metric with the start time of the server process. Not every server exports it.
const processStart = "process_start_time_seconds"

// counted lists the metrics that a probe reads.
var counted = func() (out []string) {
	out = append(out, processStart)
	for _, c := range cacheCounters {
		out = append(out, c.queried, c.hit)
	}
	for _, h := range queueHistograms {
		for _, name := range []string{h.waited, h.prefill} {
			if name != "" {
				out = append(out, name+"_sum", name+"_count")
			}
		}
	}
	return out
}()

// counters returns the counters summed over their labels, or nil if the server has no metrics page.
func (p *cacheProbe) counters(ctx context.Context) (out map[string]float64) {
	for _, path := range metricsPaths {
		if status, body := p.do(ctx, http.MethodGet, path); status == http.StatusOK {
			if out = countersOf(string(body)); len(out) > 0 {
				break
			}
		}
	}
	return out
}

// countersOf parses a metrics page and sums each counter over its labels. It omits a counter if one of its
// values is not a finite number, because the sum would be incomplete.
func countersOf(page string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(page) {
		for _, name := range counted {
			rest, ok := strings.CutPrefix(line, name)
			if !ok || rest == "" || !strings.ContainsRune("{ \t", rune(rest[0])) {
				continue
			}

			fields := strings.Fields(withoutLabels(rest))
			if len(fields) == 0 {
				out[name] = math.NaN()
				continue
			}

			v, err := strconv.ParseFloat(fields[0], 64)
			if err != nil || math.IsInf(v, 0) {
				v = math.NaN()
			}

			out[name] += v
		}
	}

	maps.DeleteFunc(out, func(_ string, v float64) bool { return math.IsNaN(v) })
	return out
}

// withoutLabels returns the text after the labels of a series: its value, optionally followed by a
// timestamp and an exemplar with its own labels. It returns "" if the labels do not end. Label values are
// quoted and may contain any character.
func withoutLabels(rest string) string {
	if rest[0] != '{' {
		return rest
	}

	quoted := false
	for i := 1; i < len(rest); i++ {
		switch {
		case quoted && rest[i] == '\\':
			i++
		case rest[i] == '"':
			quoted = !quoted
		case rest[i] == '}' && !quoted:
			return rest[i+1:]
		}
	}

	return ""
}
