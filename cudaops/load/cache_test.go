package load

import (
	"math"
	"strings"
	"testing"
)

// TestGains checks the differences of server counters over a phase, including missing and reset counters.
func TestGains(t *testing.T) {
	t.Parallel()
	page := func(start, sum, count, queried, hit string) string {
		return strings.NewReplacer("START", start, "SUM", sum, "COUNT", count, "QUERIED", queried, "HIT", hit).Replace(
			"process_start_time_seconds START\nvllm:request_queue_time_seconds_sum SUM\nvllm:request_queue_time_seconds_count COUNT\n" +
				"vllm:prefix_cache_queries_total QUERIED\nvllm:prefix_cache_hits_total HIT\n")
	}
	nan := math.NaN()
	before := page("1.7e9", "1", "10", "100", "50")
	for _, x := range []struct {
		name, after  string
		waited, rate float64
	}{
		{"all is well", page("1.7e9", "3", "20", "300", "150"), 200, 0.5},
		{"nothing came", before, nan, nan},
		{"another process, further than the first", page("1.8e9", "3", "20", "300", "150"), nan, nan},
		{"back", page("1.7e9", "0.5", "3", "30", "10"), nan, nan},
		{"more requests and less time", page("1.7e9", "0.5", "20", "300", "50"), nan, 0},
		{"more time and fewer requests", page("1.7e9", "3", "9", "300", "50"), nan, 0},
		{"fewer hits", page("1.7e9", "3", "20", "300", "40"), 200, nan},
		{"more hits than lookups", page("1.7e9", "3", "20", "300", "251"), 200, nan},
		{"endless", page("1.7e9", "+Inf", "20", "+Inf", "150"), nan, nan},
		{"no page", "", nan, nan},
	} {
		p := &cacheProbe{before: countersOf(before)}
		c, q := Cache{Queried: nan, Hit: nan}, Queue{Waited: nan, Prefill: nan}
		p.gains(countersOf(x.after), &c, &q)
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
		if !same(q.Waited, x.waited) || !same(c.HitRate(), x.rate) || !math.IsNaN(q.Prefill) {
			t.Errorf("%s: waited %v, want %v; hit rate %v, want %v; prefill %v", x.name, q.Waited, x.waited, c.HitRate(), x.rate, q.Prefill)
		}
	}
}

// TestCountersOf parses pages of real servers and truncated or invalid pages.
func TestCountersOf(t *testing.T) {
	t.Parallel()
	const sum = "vllm:request_queue_time_seconds_sum"
	for _, x := range []struct {
		name, page string
		want       float64 // NaN means unknown
	}{
		{"labels with braces", sum + `{engine="0",model_name="a}b{\"} 7"} 1.5` + "\n" + sum + `{engine="1"} 2` + "\n", 3.5},
		{"an example behind the value", sum + `{engine="0"} 1.5 1690000000 # {trace_id="a"} 9` + "\n", 1.5},
		{"no labels, a tab and CRLF", sum + "\t4\r\n", 4},
		{"no end of line", sum + " 4", 4},
		{"no UTF-8", "\xff\xfe{ 1\n" + sum + `{model_name="` + "\xff" + `"} 2` + "\n", 2},
		{"behind a very long line", "# " + strings.Repeat("x", 3<<20) + "\n" + sum + " 4\n", 4},
		{"another name", sum + "_of_others 9\n" + strings.TrimSuffix(sum, "_sum") + "_summary 9\n", math.NaN()},
		{"cut in its labels", sum + ` 1` + "\n" + sum + `{engine="1`, math.NaN()},
		{"cut before its value", sum + ` 1` + "\n" + sum + `{engine="1"}`, math.NaN()},
		{"one is infinite", sum + ` +Inf` + "\n" + sum + `{engine="1"} 2`, math.NaN()},
		{"one is no number", sum + `{engine="1"} 2` + "\n" + sum + ` x`, math.NaN()},
		{"HTML", "<html>" + sum + " 4</html>", math.NaN()},
	} {
		got, ok := countersOf(x.page)[sum]
		if !ok {
			got = math.NaN()
		}
		if got != x.want && !(math.IsNaN(got) && math.IsNaN(x.want)) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}
