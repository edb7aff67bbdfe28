package gate

import (
	"math"
	"strings"
	"testing"
)

// TestConsistency: what others have published by mistake is found.
func TestConsistency(t *testing.T) {
	c := &consistency{}
	sound := map[string]float64{
		"throughput_tokens_sec": 212, "tpot": 18.8, "ttft": 81, "output_length": 512, "batch_size": 4, "gpus": 2,
		"tensor_parallel_size": 2, "pipeline_parallel_size": 1,
		"traced_ranks": 2, "comm_overhead": 40.8, "comm_exposed_pct": 40.8, "trace_wall_ms": 10, "trace_busy_ms": 9,
		"trace_bubble_ms": 1, "gpu_energy_j": 1000, "gpu_energy_by_power_j": 980,
		"iteration_wall_clock": 9.65, "iterations": 5, "output_tokens": 5 * 4 * 512,
	}

	judge := func(change map[string]float64) (string, int) {
		v := cellValues{cols: map[string]series{}}
		for name, x := range sound {
			if y, ok := change[name]; ok {
				x = y
			}
			v.cols[name] = series{val: []float64{x}, null: []bool{math.IsNaN(x)}}
		}

		notes, judged := c.judge(v)
		return strings.Join(notes, "; "), judged
	}
	if notes, judged := judge(nil); notes != "" || judged != 7 {
		t.Errorf("a sound cell: %q, %d relations", notes, judged)
	}

	for _, b := range []struct {
		change map[string]float64
		want   string
	}{
		// Steps a second in the column of tokens.
		{map[string]float64{"throughput_tokens_sec": 0.104}, "0.104 tokens/s, and TPOT and concurrency make 211"},
		// seq_len, the limit, taken for the tokens.
		{map[string]float64{"throughput_tokens_sec": 849}, "849 tokens/s, and tokens and iteration times make 212"},
		// The sum of all degrees of parallelism for one of TP 2.
		{map[string]float64{"gpus": 6}, "6 GPUs, and the degrees of parallelism make 2"},
		{map[string]float64{"traced_ranks": 1}, "2 GPUs, and traces of 1"},
		// Overlapping collectives added up.
		{map[string]float64{"comm_overhead": 128.5, "comm_exposed_pct": 12}, "communication takes 128.5 % of a step"},
		{map[string]float64{"comm_exposed_pct": 50}, "50 % of exposed communication, of 40.8 % in all"},
		{map[string]float64{"trace_bubble_ms": 3}, "busy 9 ms and bubbles 3 ms, of steps of 10 ms"},
		{map[string]float64{"gpu_energy_j": 5400}, "5400 J by the counters, 980 J by the power"},
	} {
		if notes, _ := judge(b.change); !strings.Contains(notes, b.want) {
			t.Errorf("%v: %q, want %q", b.change, notes, b.want)
		}
	}

	none := map[string]float64{}
	for name := range sound {
		none[name] = math.NaN()
	}

	if notes, judged := judge(none); notes != "" || judged != 0 {
		t.Errorf("without figures: %q, %d", notes, judged)
	}
}
