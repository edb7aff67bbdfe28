package loadtest

import (
	"fmt"
	"strings"
)

// metricsPath returns the path of the Prometheus metrics.
func (s *Server) metricsPath() string {
	if s.opts.TensorRT {
		return "/prometheus/metrics"
	}
	return "/metrics"
}

// metrics returns the metrics page according to the options.
func (s *Server) metrics() string {
	var b strings.Builder
	if s.opts.PrefixCache {
		fmt.Fprintf(&b, "# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total{engine=\"0\"} %d\n"+
			"# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total{engine=\"0\"} %d\n",
			s.asked.Load(), s.hits.Load())
	}

	// Metrics with labels appear after the first request.
	if n := float64(s.number.Load()); s.opts.Queue > 0 && n > 0 {
		waited := s.opts.Queue.Seconds() * n * (n + 1) / 2
		for name, sum := range map[string]float64{"queue": waited, "prefill": 2 * waited} {
			name = "vllm:request_" + name
			if s.opts.TensorRT {
				name = strings.Replace(name, "vllm:", "trtllm_", 1)
			}
			fmt.Fprintf(&b, "# TYPE %[1]s_time_seconds histogram\n%[1]s_time_seconds_bucket{engine=\"0\",le=\"+Inf\"} %[2]v\n"+
				"%[1]s_time_seconds_count{engine=\"0\"} %[2]v\n%[1]s_time_seconds_sum{engine=\"0\"} %[3]v\n", name,
				n, sum)
		}
	}

	return b.String()
}
