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

// Cache is what is known of the server's prefix cache during the run.
type Cache struct {
	// Reset is true when the server said that it forgot its cache before the run.
	Reset bool
	// Queried and Hit are tokens that the server looked up and found during the
	// profiling phase, NaN where it does not tell.
	Queried, Hit float64
}

// HitRate is the share of looked-up tokens that were found, NaN where the
// server does not tell.
func (c Cache) HitRate() float64 {
	if c.Queried > 0 {
		return c.Hit / c.Queried
	}
	return math.NaN()
}

// Where servers forget their cache: vLLM (in development mode), SGLang.
var resetPaths = []string{"/reset_prefix_cache", "/flush_cache"}

// Counters of cache lookups, in tokens, by server.
var cacheCounters = []struct{ queried, hit string }{
	{"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"},
	{"vllm:prefix_cache_queries", "vllm:prefix_cache_hits"},
	{"vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_hits_total"},
	{"sglang:prompt_tokens_total", "sglang:cached_tokens_total"},
}

// Queue is what the server says of the requests of the profiling phase, in ms a
// request, NaN where it does not tell.
type Queue struct {
	// Waited is from when the server took a request up until it first ran.
	Waited float64
	// Prefill is from then until its first token.
	Prefill float64
}

// Histograms of a request's times in seconds, by server.
var queueHistograms = []struct{ waited, prefill string }{
	{"vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds"},
	{"sglang:queue_time_seconds", ""},
	{"trtllm_request_queue_time_seconds", "trtllm_request_prefill_time_seconds"},
}

// Where servers show their metrics: vLLM and SGLang; TensorRT-LLM, which has other
// statistics in the first place.
var metricsPaths = []string{"/metrics", "/prometheus/metrics"}

// probeTimeout bounds each question about the cache.
const probeTimeout = 2 * time.Second

// maxMetrics bounds a metrics page, in bytes.
const maxMetrics = 16 << 20

// A cacheProbe asks a server about its prefix cache and its queue.
type cacheProbe struct {
	r      *runner
	client *http.Client
	base   url.URL
	key    string
	before map[string]float64
}

func newCacheProbe(r *runner) *cacheProbe {
	u, err := r.settings.Target()
	if err != nil {
		panic("load: " + err.Error()) // newRunner has seen it
	}
	key, _ := r.settings.key(r.options.Getenv) // newRunner has read it
	t := &http.Transport{DialContext: r.options.Dial, TLSClientConfig: r.tls.Clone(), DisableKeepAlives: true}
	return &cacheProbe{r: r, key: key, base: url.URL{Scheme: u.Scheme, Host: u.Host}, client: &http.Client{Transport: t, Timeout: probeTimeout}}
}

func (p *cacheProbe) do(ctx context.Context, method, path string) (int, []byte) {
	return p.send(ctx, method, path, nil)
}

// send asks the server something; the status is 0 where it does not answer.
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
	if err != nil || len(body) > maxMetrics { // a part of the series is no sum of them
		return 0, nil
	}
	return res.StatusCode, body
}

// reset asks the server to forget its cache.
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

// gains is what the counters gained since the phase began.
func (p *cacheProbe) gains(after map[string]float64, c *Cache, q *Queue) {
	if started := p.before[processStart]; started != after[processStart] {
		return // another process has counted since
	}
	for _, names := range queueHistograms {
		if waited := p.mean(names.waited, after); !math.IsNaN(waited) {
			q.Waited, q.Prefill = waited, p.mean(names.prefill, after)
			break
		}
	}
	for _, names := range cacheCounters {
		q0 := p.before[names.queried] // 0 where the server has not counted anything yet
		q1, ok := after[names.queried]
		if !ok || q1 < q0 {
			continue // a restarted server has lost what it counted
		}
		hit := after[names.hit] - p.before[names.hit]
		if hit < 0 || hit > q1-q0 {
			continue // of another process, or of other lookups
		}
		c.Queried, c.Hit = q1-q0, hit
		return
	}
}

// mean is what a histogram of seconds has gained since the phase began, in ms a
// request. A server whose metrics have labels shows them from the first request on.
func (p *cacheProbe) mean(name string, after map[string]float64) float64 {
	s0 := p.before[name+"_sum"]
	s1, ok := after[name+"_sum"]
	n := after[name+"_count"] - p.before[name+"_count"]
	if !ok || s1 < s0 || !(n > 0) {
		return math.NaN()
	}
	return (s1 - s0) / n * 1e3
}

// processStart is when the server's process was started, where its page tells.
const processStart = "process_start_time_seconds"

// counted are the counters that a probe reads.
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

// counters sums the counters over their labels; nil without a metrics page.
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

// countersOf reads a metrics page. A counter with a value that is none is left out:
// the others are no sum.
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

// withoutLabels is what stands behind the labels of a series: its value, and maybe a
// time and an example with labels of its own. Values of labels are in quotes, and
// have any characters.
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
