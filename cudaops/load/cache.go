package load

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/load/openai"
)

// resetPaths are the endpoints that clear the cache: vLLM (in development mode) and SGLang.
var resetPaths = []string{"/reset_prefix_cache", "/flush_cache"}

// cacheCounters are the names of the token counters of cache lookups, per server type and version.
var cacheCounters = []struct{ queried, hit string }{
	{"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"},
	{"vllm:prefix_cache_queries", "vllm:prefix_cache_hits"},
	{"vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_hits_total"},
	{"sglang:prompt_tokens_total", "sglang:cached_tokens_total"},
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

// A cacheProbe clears a server's prefix cache and reads its metrics page.
type cacheProbe struct {
	r      *runner
	client *http.Client
	base   url.URL
	api    string // path before that of the API
	page   string // path of the metrics page, or "" if the server has none
}

func newCacheProbe(r *runner, to *target) *cacheProbe {
	t := &http.Transport{DialContext: r.options.Dial, TLSClientConfig: r.tls.Clone()}
	if to.proxy != nil {
		t.Proxy = http.ProxyFromEnvironment
	}

	p := probeOf(to.server, t)
	p.r = r
	return p
}

// probeOf returns a probe without a key of the server at a URL of a plan.
func probeOf(server *url.URL, t *http.Transport) *cacheProbe {
	t.DisableKeepAlives = true
	api, _ := openai.Split(server.Path)
	return &cacheProbe{base: url.URL{Scheme: server.Scheme, Host: server.Host, RawQuery: server.RawQuery}, api: api,
		client: &http.Client{Transport: t, Timeout: probeTimeout, CheckRedirect: noRedirect}}
}

// paths returns where pages may be: beside the API, and at the root, where servers have them that keep only the API
// below a path.
func (p *cacheProbe) paths(pages ...string) []string {
	var out []string
	for _, page := range pages {
		out = append(out, p.api+page)
	}
	if p.api != "" {
		out = append(out, pages...)
	}
	return out
}

// noRedirect makes a client return redirects, whose target would get the API key.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// do does one request and returns the status and the body. The status is 0 if the request fails or the
// body exceeds maxMetrics.
func (p *cacheProbe) do(ctx context.Context, method, path string) (int, []byte) {
	u := p.base
	u.Path = path
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return 0, nil
	}

	if p.r != nil {
		p.r.settings.setKey(req.Header, p.r.key)
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

// reset clears the server's cache and reports whether the server confirmed it. It returns an error only if the settings
// require a reset and the server does not support one.
func (p *cacheProbe) reset(ctx context.Context) (bool, error) {
	if p.r.settings.CacheReset == ResetNever {
		return false, nil
	}

	for _, path := range p.paths(resetPaths...) {
		if status, _ := p.do(ctx, http.MethodPost, path); status == http.StatusOK {
			return true, nil
		}
	}

	if p.r.settings.CacheReset == ResetRequire {
		return false, fmt.Errorf(
			"cache_reset = %q, and the server has neither %s; start vLLM with VLLM_SERVER_DEV_MODE=1, or set cache_reset = %q",
			ResetRequire,
			strings.Join(resetPaths, " nor "),
			ResetAuto,
		)
	}

	return false, nil
}

// processStart is the metric with the start time of the server process. Not every server exports it.
const processStart = "process_start_time_seconds"

// columns returns the columns of a row with what the servers counted in the phase. cache_hit_rate is the share of
// looked-up tokens that were in the prefix cache. server_queue and server_prefill are mean times of a request in ms,
// from accepting it to running it, and from there to its first token. Columns that the servers do not export are
// missing. All are if a page was damaged, if the last page is missing, or if a server was started again in the phase.
func (w *serverPages) columns() map[string]float64 {
	out := map[string]float64{}
	if w.damaged || slices.Contains(slices.Collect(maps.Values(w.lost)), true) {
		return out
	}

	for key, s := range w.series {
		if key.metric == processStart && len(s.values) > 0 && slices.Min(s.values) != slices.Max(s.values) {
			return out
		}
	}

	for _, names := range queueHistograms {
		if waited := w.mean(names.waited); !math.IsNaN(waited) {
			out["server_queue"], out["server_prefill"] = waited, w.mean(names.prefill)
			break
		}
	}

	for _, names := range cacheCounters {
		queried, hit := w.increase(names.queried, 0), w.increase(names.hit, 0)
		if hit <= queried { // else the two counters do not cover the same lookups
			out["cache_hit_rate"] = hit / queried
			break
		}
	}

	maps.DeleteFunc(out, func(_ string, v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	return out
}

// mean returns the mean of a histogram of seconds in ms, or NaN if it did not grow.
func (w *serverPages) mean(name string) float64 {
	return w.increase(name, 1) / w.increase(name, 0) * 1e3
}

// increase returns the increase of a counter, or of the count (0) or the sum (1) of a histogram, over all servers and
// labels. It returns NaN if no server exports it, or if one of the increases is unknown.
func (w *serverPages) increase(name string, i int) float64 {
	total := math.NaN()
	for key, s := range w.series {
		if key.metric == name && s.unknown {
			return math.NaN()
		}
		if key.metric == name && i < len(s.grown) {
			if math.IsNaN(total) {
				total = 0
			}
			total += s.grown[i]
		}
	}
	return total
}
