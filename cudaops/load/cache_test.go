package load

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
)

// TestCacheAndQueueFigures checks the increases of server counters over a phase: missing, restarted, endless and new
// ones.
func TestCacheAndQueueFigures(t *testing.T) {
	t.Parallel()
	page := func(start, sum, count, queried, hit string) string {
		const queue, queries, hits = "vllm:request_queue_time_seconds", "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
		return fmt.Sprintf("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %s\n"+
			"# TYPE %[2]s histogram\n%[2]s_bucket{le=\"+Inf\"} %[4]s\n%[2]s_sum %[3]s\n%[2]s_count %[4]s\n"+
			"# TYPE %[5]s counter\n%[5]s{engine=\"a}b{\\\"\"} %[6]s\n%[5]s{engine=\"1\"} 7\n"+
			"# TYPE %[7]s counter\n%[7]s %[8]s\n", start, queue, sum, count, queries, queried, hits, hit)
	}
	nan := math.NaN()
	before := page("1.7e9", "1", "10", "100", "50")
	fresh := "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.7e9\n"
	for _, x := range []struct {
		name, before, after string
		waited, rate        float64
	}{
		{"growth", before, page("1.7e9", "3", "20", "300", "150"), 200, 0.5},
		{"no request", before, before, nan, nan},
		{"series that the first request creates", fresh, page("1.7e9", "2", "10", "93", "50"), 200, 0.5},
		{"another process", before, page("1.8e9", "3", "20", "300", "150"), nan, nan},
		{"more hits than lookups", before, page("1.7e9", "3", "20", "300", "251"), 200, nan},
		{"not finite", before, page("1.7e9", "+Inf", "20", "+Inf", "50"), nan, nan},
		{"cut page", before, strings.TrimSuffix(page("1.7e9", "3", "20", "300", "150"), "150\n"), nan, nan},
		{"HTML", before, "<html>" + page("1.7e9", "3", "20", "300", "150"), nan, nan},
		{"no page", before, "", nan, nan},
	} {
		w := newServerPages()
		w.take("http://s", http.StatusOK, []byte(x.before), false)
		w.take("http://s", http.StatusOK, []byte(x.after), true)
		res := &Traffic{Exported: w.columns()}
		waited, rate := exported(res, "server_queue"), exported(res, "cache_hit_rate")
		prefill := exported(res, "server_prefill")
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
		if !same(waited, x.waited) || !same(rate, x.rate) || !math.IsNaN(prefill) {
			t.Errorf("%s: waited %v, want %v; hit rate %v, want %v; prefill %v", x.name, waited, x.waited, rate, x.rate, prefill)
		}
	}
}
