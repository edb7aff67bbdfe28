package aiperf

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNumpy compares statistics with numpy 2, bit by bit for percentiles.
func TestNumpy(t *testing.T) {
	v := []float64{10, 1, 3.5, 2, 7}
	s := Describe(slices.Clone(v))
	if s["avg"] != 4.7 || s["min"] != 1 || s["max"] != 10 || s["sum"] != 23.5 || s["count"] != 5 {
		t.Errorf("%+v", s)
	}
	for name, want := range map[string]float64{"p1": 1.04, "p5": 1.2, "p10": 1.4, "p25": 2, "p50": 3.5, "p75": 7,
		"p90": 8.8, "p95": 9.4, "p99": 9.88} {
		if !(math.Abs(s[name]-want) <= 1e-12) {
			t.Errorf("%s is %v, want %v", name, s[name], want)
		}
	}
	if !(math.Abs(s["std"]-3.340658617698013) <= 1e-12) { // ddof 0
		t.Errorf("std %v", s["std"])
	}
	if Describe(nil) != nil {
		t.Error("nothing has statistics")
	}
}

func TestConstantColumns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 0, 1, 2.5}), 1, 50).Draw(t, "values")
		var c column
		for _, v := range values {
			c.add(v)
		}
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		got, want := c.stats(), Describe(slices.Clone(values))
		if !(math.Abs(got["avg"]-want["avg"]) <= 1e-9) || got["p50"] != want["p50"] || got["p99"] != want["p99"] ||
			got["count"] != want["count"] || !(math.Abs(c.sum()-sum) <= 1e-9) ||
			!(math.Abs(got["std"]-want["std"]) <= 1e-9) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestSweepsKeepTokens checks for random requests that the mean rate times the window is the number of
// tokens, and that active values are never below effective ones.
func TestSweepsKeepTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Collector{Streaming: true}
		input, output := 0, 0
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			r := Record{}
			r.Reset()
			r.Start = 1e9 + rapid.Int64Range(0, 1e9).Draw(t, "start")
			at := r.Start
			n := rapid.IntRange(2, 10).Draw(t, "messages")
			for range n {
				at += rapid.Int64Range(1000, 1e8).Draw(t, "gap")
				r.Times = append(r.Times, at)
			}
			r.Finish, r.Last, r.Ack, r.Sent, r.FirstOutput = at, at, r.Times[0], r.Start, 0
			r.Input, r.Output = rapid.IntRange(1, 100).Draw(t, "in"), n
			input += r.Input
			output += n - 1
			c.Add(&r)
		}
		s := c.Summary()
		get := func(tag string) float64 {
			m, ok := s.Get(tag)
			if !ok {
				t.Fatalf("there is no %s", tag)
			}
			return m.Stats["avg"]
		}
		window := float64(s.To-s.From) / 1e9
		if got := get("effective_prefill_throughput") * window; !(math.Abs(got-float64(input)) <= 1e-6*float64(input)) {
			t.Errorf("%v prompt tokens, want %d", got, input)
		}
		if got := get("effective_decode_throughput") * window; !(math.Abs(got-float64(output)) <= 1e-6*float64(output)) {
			t.Errorf("%v output tokens, want %d", got, output)
		}
		if !(get("active_decode_throughput") >= get("effective_decode_throughput")*(1-1e-9)) {
			t.Error("active is below effective")
		}
	})
}

// TestOutputsOfAnotherLength compares the counts of outputs that are not as long as requested with AIPerf's threshold.
func TestOutputsOfAnotherLength(t *testing.T) {
	for _, c := range []struct{ asked, output, mismatched, short int }{
		{20, 19, 0, 0}, {20, 18, 1, 1}, {20, 22, 1, 0}, {2000, 1950, 0, 0}, {2000, 1949, 1, 1}, {2000, 2060, 1, 0},
	} {
		var r Record
		r.Reset()
		r.Start, r.Times, r.Finish, r.Asked, r.Output = 1e9, []int64{2e9}, 2e9, c.asked, c.output
		var all Collector
		all.Add(&r)
		s := all.Summary()
		if m, _ := s.Get("osl_mismatch_count"); int(m.Stats["avg"]) != c.mismatched || s.Short != c.short {
			t.Errorf("%+v: %v mismatched, %d short", c, m.Stats["avg"], s.Short)
		}
	}
}

func TestSLO(t *testing.T) {
	slo, err := ParseSLO(map[string]float64{"ttft": 10, "output_token_throughput_per_user": 50})
	if err != nil {
		t.Fatal(err)
	}
	var v Values
	for i := range v {
		v[i] = math.NaN()
	}
	for _, c := range []struct {
		ttft, rate float64
		good       bool
	}{{10, 50, true}, {10.1, 50, false}, {1, 49, false}, {1, math.NaN(), false}} {
		v[TTFT], v[OutputPerUser] = c.ttft, c.rate
		if slo.Good(&v) != c.good {
			t.Errorf("%+v", c)
		}
	}
	for _, limits := range []map[string]float64{{"tfft": 1}, {"ttft": -1}, {"ttft": math.NaN()},
		{"good_request_count": 1}} {
		if _, err := ParseSLO(limits); err == nil {
			t.Errorf("%v passes", limits)
		}
	}
}

// TestDefinitionsAreInOrder compares the lines of metrics.csv with the constants that are their indices.
func TestDefinitionsAreInOrder(t *testing.T) {
	for i, tag := range map[int]string{RequestLatency: "request_latency", ITL: "inter_token_latency",
		UsagePrompt: "usage_prompt_tokens", CreditToStart: "credit_to_start_latency", Good: "good_request_count",
		HTTPBlocked: "http_req_blocked", HTTPChunksReceived: "http_req_chunks_received"} {
		if perRequest[i].Tag != tag {
			t.Errorf("definition %d is %s, not %s", i, perRequest[i].Tag, tag)
		}
	}
}
