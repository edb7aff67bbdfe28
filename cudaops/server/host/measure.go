package host

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"aicplan/cudaops/load"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/fileutil"
)

// measure adds the metrics of an experiment to the row of a load. Unknown metrics are omitted.
//
//	tpot                    ms, mean time per token after the first: the load's itl
//	iteration_wall_clock    s, mean over the iterations: from before the first request of a
//	                        closed batch is sent until the last one has ended
//	throughput_tokens_sec   generated tokens / time of the iterations; without iterations the
//	                        load's throughput
func measure(row worker.Row, a *ask, res *load.Traffic) {
	for to, from := range map[string]string{"tpot": "itl", "tpot_p50": "itl_p50", "tpot_p99": "itl_p99"} {
		if v, ok := row[from]; ok {
			row[to] = v
		}
	}

	if v, ok := row["throughput"]; ok {
		row["throughput_tokens_sec"] = v
	}

	batches := res.Profiling.Batches
	if a.iteration == nil || len(batches) == 0 {
		return
	}

	var total float64
	var times []float64
	for _, b := range batches {
		times = append(times, float64(b.To-b.From)/1e9)
		total += times[len(times)-1]
	}

	row["iterations"] = len(batches)
	row["iteration_wall_clock"] = total / float64(len(batches))
	row["iteration_wall_clock_min"], row["iteration_wall_clock_max"] = slices.Min(times), slices.Max(times)

	if tokens, ok := row["output_tokens"].(float64); ok && total > 0 {
		row["throughput_tokens_sec"] = tokens / total
	}
}

// timingStats is the content of timing_stats_<rank>.json. Times are in seconds and null if unknown. A
// client cannot distinguish ranks, so the times are the same in all files of a case. Only Traced differs.
type timingStats struct {
	Rank       int       `json:"rank"`
	Iterations []float64 `json:"iteration_times"`
	Avg        *float64  `json:"avg_iteration_time"`
	Min        *float64  `json:"min_iteration_time"`
	Max        *float64  `json:"max_iteration_time"`
	TTFT       *float64  `json:"ttft_avg"`
	TPOT       *float64  `json:"tpot_avg"`
	TTFT99     *float64  `json:"ttft_p99"`
	TPOT99     *float64  `json:"tpot_p99"`

	// Traced are the figures of the rank's trace, or null without a trace.
	Traced *rankFigures `json:"traced"`
}

// stats returns the content of timing_stats_<rank>.json.
func stats(rank int, row worker.Row, res *load.Traffic, traced *rankFigures) ([]byte, error) {
	seconds := func(name string, per float64) *float64 {
		v, ok := row[name].(float64)
		if !ok || math.IsNaN(v) {
			return nil
		}
		return new(v / per)
	}

	s := timingStats{
		Rank: rank, Iterations: []float64{}, Avg: seconds("iteration_wall_clock", 1),
		Min: seconds("iteration_wall_clock_min", 1), Max: seconds("iteration_wall_clock_max", 1),
		TTFT: seconds("ttft", 1e3), TPOT: seconds("tpot", 1e3), TTFT99: seconds("ttft_p99", 1e3),
		TPOT99: seconds("tpot_p99", 1e3), Traced: traced,
	}

	for _, b := range res.Profiling.Batches {
		s.Iterations = append(s.Iterations, float64(b.To-b.From)/1e9)
	}

	out, err := json.MarshalIndent(s, "", "  ")
	return append(out, '\n'), err
}

// maxConfig limits the size of a model's config.json in bytes.
const maxConfig = 1 << 20

// modelConfig returns the config.json of the model folder in a command, or nil if there is none.
func modelConfig(command []string) json.RawMessage {
	for _, a := range command {
		if !filepath.IsAbs(a) {
			continue
		}
		data, err := fileutil.ReadText(filepath.Join(a, "config.json"))
		if err == nil && len(data) <= maxConfig && json.Valid(data) {
			return data
		}
	}
	return nil
}

// keep attaches the files of an experiment except the traces.
func (h *Host) keep(s *running, a *ask, row worker.Row, res *load.Traffic, t *tracing) error {
	ranks := max(a.gpus, 1)
	for rank := range ranks {
		var traced *rankFigures
		if t != nil {
			traced = t.ranks[rank]
		}
		data, err := stats(rank, row, res, traced)
		if err != nil {
			return err
		}
		h.out.Attach(a.Seq, worker.Attachment{Name: fmt.Sprintf("timing_stats_%d.json", rank),
			MediaType: "application/json", Data: data})
	}

	about := struct {
		*facts
		NCCL      string            `json:"nccl_version,omitempty"` // as reported in the traces
		Framework string            `json:"framework,omitempty"`
		Version   string            `json:"framework_version,omitempty"`
		Command   []string          `json:"command"`
		Env       map[string]string `json:"env,omitempty"`
		Model     string            `json:"model"`
		Server    map[string]string `json:"server"`
		Iteration *iteration        `json:"iteration,omitempty"`
		Used      int               `json:"gpus_used"` // 0 if unknown
		Traces    []string          `json:"traces"`
		Config    json.RawMessage   `json:"model_config,omitempty"`
	}{facts: h.facts, Framework: h.options.Package, Command: s.command, Env: communication(append(os.Environ(),
		s.env...)), Model: s.values["model"], Server: a.server, Iteration: a.iteration, Used: a.gpus,
		Traces: []string{}}

	about.Version, about.Config = s.version, modelConfig(s.command)
	if t != nil {
		about.Traces, about.NCCL = append(about.Traces, t.kinds...), t.nccl
	}

	data, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}

	h.out.Attach(a.Seq, worker.Attachment{Name: FactsFile, MediaType: "application/json", Data: append(data, '\n')})
	return nil
}
