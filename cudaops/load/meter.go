package load

import (
	"math"
	"runtime"
	rtm "runtime/metrics"
	"time"
)

// Client reports the resources that the load generator used during the measurement, to show that it was not
// the bottleneck.
type Client struct {
	// CPUShare is the used fraction of the CPU time available to the process, from 0 to 1, or 0 if unknown.
	CPUShare float64
	// SchedP99 is the 99th percentile of the time that runnable goroutines waited for a CPU, in ms. Requests may be
	// late by this much, and times of responses too if the kernel does not report when their data arrived.
	SchedP99 float64
	// PeakRSS is the peak memory of the process since its start in MiB, or 0 if unknown.
	PeakRSS float64
}

const schedMetric = "/sched/latencies:seconds"

// A meter measures the process's resource usage during a phase.
type meter struct {
	began time.Time
	cpu   time.Duration
	sched []uint64
}

func startMeter() *meter {
	m := &meter{began: time.Now()}
	m.cpu, _ = usage()
	if h := schedHistogram(); h != nil {
		m.sched = append(m.sched, h.Counts...)
	}
	return m
}

func (m *meter) stop(c *Client) {
	var cpu time.Duration
	cpu, c.PeakRSS = usage()
	if wall := time.Since(m.began).Seconds(); wall > 0 {
		c.CPUShare = (cpu - m.cpu).Seconds() / wall / float64(runtime.GOMAXPROCS(0))
	}

	if h := schedHistogram(); h != nil && len(h.Counts) == len(m.sched) {
		c.SchedP99 = 1e3 * since(h, m.sched, 0.99)
	}
}

func schedHistogram() *rtm.Float64Histogram {
	s := []rtm.Sample{{Name: schedMetric}}
	rtm.Read(s)
	if s[0].Value.Kind() != rtm.KindFloat64Histogram {
		return nil
	}
	return s[0].Value.Float64Histogram()
}

// since returns the q-quantile of the samples added to a histogram after before was read, as the upper
// bound of its bucket.
func since(h *rtm.Float64Histogram, before []uint64, q float64) float64 {
	var total uint64
	for i, n := range h.Counts {
		total += n - before[i]
	}

	if total == 0 {
		return 0
	}

	want := uint64(math.Ceil(q * float64(total)))
	var have uint64
	for i, n := range h.Counts {
		if have += n - before[i]; have >= want {
			if hi := h.Buckets[i+1]; !math.IsInf(hi, 0) {
				return hi
			}
			return h.Buckets[i]
		}
	}

	return 0
}
