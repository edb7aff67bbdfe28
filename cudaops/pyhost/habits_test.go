package pyhost_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

var kdaMatch = m{"phase": "phase", "num_k_heads": "num_k_heads"}

// TestTextLatenciesAreNumbers: collectors log f"{latency:.4f}", in the worker and
// in its children. The row has the number that was measured and its statistics.
func TestTextLatenciesAreNumbers(t *testing.T) {
	t.Parallel()
	c, _ := checkout(t, "sglang", m{
		"dsa": m{"module": "collector.trtllm.collect_dsa", "run": "run_dsa",
			"args": []any{"isl", "batch_size", "tp_size", true, m{"value": "dsa_context_perf.txt"}}},
		"child": m{"module": "collector.sglang.collect_mla_module", "getter": "get_dsa_context_module_test_cases",
			"run":           "run_mla_module_worker",
			"perf_filename": "dsa_context_module_perf.txt", "match": m{"batch_size": "batch_size"}},
	})
	var got []string
	for op, params := range map[string]m{"dsa": {"isl": 64, "batch_size": 1, "tp_size": 8}, "child": {"batch_size": 2}} {
		for _, row := range c.rows(op, params, nil) {
			latency, ok := row["latency"].(float64)
			if !ok || !(latency > 0) {
				t.Errorf("%s: the latency is %v", op, row["latency"])
			}
			got = append(got, strconv.FormatFloat(latency, 'g', -1, 64))
			if row["samples"] == nil || row["rel_stdev"] == nil || row["used_cuda_graph"] != false || row["p90"] == nil {
				t.Errorf("%s: no statistics: %v", op, row)
			}
		}
	}
	// The stand-ins print what they measured; a measured time may by chance have
	// no more digits than a logged one.
	c.shutdown()
	var want []string
	for _, word := range regexp.MustCompile(`(?m)^measured (\S+)$`).FindAllStringSubmatch(c.log.String(), -1) {
		f, err := strconv.ParseFloat(word[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, strconv.FormatFloat(f, 'g', -1, 64))
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) < 2 || !slices.Equal(got, want) {
		t.Errorf("latencies %v, measured were %v", got, want)
	}
}

// TestRowsBeforeAnErrorAreKept: a sweep that raises at its end sends what it has
// logged with its error, from the worker and from a child.
func TestRowsBeforeAnErrorAreKept(t *testing.T) {
	t.Parallel()
	for _, run := range []string{"run_kda_torch", "run_kda_child"} {
		c, _ := checkout(t, "vllm", m{"kda": m{"module": "collector.vllm.collect_kda", "getter": "get_kda_test_cases",
			"run":           run,
			"perf_filename": "kda_perf.txt", "match": kdaMatch}})
		c.send(worker.Case{Type: worker.TypeCase, Seq: 1, ID: "k", Op: "kda",
			Params: raw(t, m{"phase": "context", "num_k_heads": 48})})
		var s worker.Start
		c.next(worker.TypeStart, &s)
		var e worker.Error
		c.next(worker.TypeError, &e)
		if !strings.Contains(e.Message, "strict completeness: ok=4 error=4") && run == "run_kda_torch" {
			t.Errorf("message %q", e.Message)
		}
		if len(e.Rows) != 10 {
			t.Errorf("%s: %d rows, want 10", run, len(e.Rows))
		}
		for _, row := range e.Rows {
			if row["samples"] == nil || row["logged_version"] != nil {
				t.Errorf("row %v", row)
			}
		}
		// The next case starts anew.
		if rows := c.rows("kda", m{"phase": "generation", "num_k_heads": 48}, nil); len(rows) != 8 {
			t.Errorf("%s: %d rows, want 8", run, len(rows))
		}
	}
}

// TestWordsOfRows: a collector may have another word for what a plan asks for; a
// word that the binding does not list stays.
func TestWordsOfRows(t *testing.T) {
	t.Parallel()
	c, _ := checkout(t, "sglang", m{"child": m{
		"module": "collector.sglang.collect_mla_module", "getter": "get_dsa_context_module_test_cases",
		"run":           "run_mla_module_worker",
		"perf_filename": "dsa_context_module_perf.txt", "match": m{"batch_size": "batch_size"},
		"words": m{"mode": m{"context": "prefill"}, "gpu": m{"none": "other"}},
	}})
	for _, row := range c.rows("child", m{"batch_size": 2}, nil) {
		if row["mode"] != "prefill" || row["gpu"] == "other" {
			t.Errorf("mode %v, gpu %v", row["mode"], row["gpu"])
		}
	}
}
